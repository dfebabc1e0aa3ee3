//! An initial RAM disk in the `newc` format (cpio(5), and the kernel's buffer-format document).
//!
//! All files belong to root and have the date 0, so that equal contents give equal bytes.

use std::collections::BTreeSet;

const MAGIC: &str = "070701";
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const TRAILER: &str = "TRAILER!!!";

/// An archive under construction.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

impl Archive {
    /// Adds a folder.
    pub(crate) fn folder(&mut self, path: &str) {
        self.add(path, FOLDER, &[]);
    }

    /// Adds an executable file.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.add(path, PROGRAM, content);
    }

    /// Adds a path and its parent folders. If a path is added twice, the first one is kept.
    fn add(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_matches('/');
        if path.is_empty() || self.names.contains(path) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.entry(path, mode, content);
    }

    /// Returns the bytes for `-initrd`.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        let inode = self.names.len() + 1;
        let links = if mode == FOLDER { 2 } else { 1 };
        self.names.insert(name.to_owned());
        // The magic number, then 13 numbers: inode, mode, uid, gid, links, mtime, size, two devices
        // with two parts each, name length, checksum.
        let mut header = MAGIC.to_owned();
        for number in [inode, mode as usize, 0, 0, links, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0] {
            header.push_str(&format!("{number:08X}"));
        }
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses names, modes and contents of an archive.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            let header = std::str::from_utf8(&bytes[at..at + 110]).unwrap();
            assert!(header.starts_with(MAGIC), "{header}");
            let number = |n: usize| usize::from_str_radix(&header[6 + 8 * n..14 + 8 * n], 16).unwrap();
            let (mode, size, name_len) = (number(1), number(6), number(11));
            let name = std::str::from_utf8(&bytes[at + 110..at + 110 + name_len - 1]).unwrap().to_owned();
            let from = (at + 110 + name_len).next_multiple_of(4);
            at = (from + size).next_multiple_of(4);
            if name == TRAILER {
                assert_eq!(at, bytes.len());
                return entries;
            }
            entries.push((name, u32::try_from(mode).unwrap(), bytes[from..from + size].to_vec()));
        }
    }

    #[test]
    fn what_goes_in_comes_out() {
        let mut archive = Archive::default();
        archive.file("/a/b/one", b"1");
        archive.file("/a/two", b"four");
        archive.folder("/a/b/c");
        archive.file("a/two", b"never");
        let entries = read(&archive.finish());
        let expected: [(&str, u32, &[u8]); 5] = [
            ("a", FOLDER, b""),
            ("a/b", FOLDER, b""),
            ("a/b/one", PROGRAM, b"1"),
            ("a/two", PROGRAM, b"four"),
            ("a/b/c", FOLDER, b""),
        ];
        let expected = expected.map(|(name, mode, content)| (name.to_owned(), mode, content.to_vec()));
        assert_eq!(entries, expected);
    }

    #[test]
    fn cpio_reads_it_where_it_is_installed() {
        let Ok(cpio) = crate::tool::find("cpio", "cpio") else { return };
        let mut archive = Archive::default();
        archive.file("/bin/x", b"hello");
        let file = std::env::temp_dir().join(format!("doorbell-rig-{}.cpio", std::process::id()));
        std::fs::write(&file, archive.finish()).unwrap();
        let mut command = std::process::Command::new(cpio);
        command.args(["-it", "--quiet", "-F"]).arg(&file);
        let listed = crate::tool::output(&mut command);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(listed.unwrap(), "bin\nbin/x\n");
    }
}
