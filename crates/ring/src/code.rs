//! Owns the pages of the program's own code: those that only the start needed are given back.
//! Does not know about: rings.
#![expect(unsafe_code, reason = "madvise")]

use std::ops::Range;

/// Takes the pages of executable code out of this process, of the program and of its libraries: most of what ran at the start (options, files,
/// self-tests) never runs again. What does comes back from the page cache, sixteen pages with each fault. Returns the bytes of the mappings;
/// 0 where `/proc` is not there.
///
/// Mappings that anybody wrote to, as debuggers do, stay as they are.
pub fn forget_code_pages() -> usize {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return 0 };
    code_mappings(&maps)
        .filter(|range| {
            // SAFETY: R-12, the range is a whole mapping of a file that nobody wrote to.
            unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) == 0 }
        })
        .map(|range| range.len())
        .sum()
}

/// Executable private mappings of files, without those of which a page was changed: such a page is anonymous (proc(5), `smaps`).
fn code_mappings(maps: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut current = None;
    maps.lines().filter_map(move |line| {
        if let Some(range) = header(line) {
            current = range;
            return None;
        }
        let changed = line.strip_prefix("Anonymous:")?;
        let range = current.take()?;
        (changed.trim() == "0 kB").then_some(range)
    })
}

/// What the first line of a mapping says: nothing where it is not one, `Some(None)` where the mapping is none of ours.
#[expect(clippy::option_option, reason = "no header is something else than a header of no interest")]
fn header(line: &str) -> Option<Option<Range<usize>>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    let range = hex(start)?..hex(end)?;
    let permissions = words.next()?;
    let inode = words.nth(2)?;
    Some((permissions == "r-xp" && inode != "0").then_some(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5560-5570 r--p 00000000 fe:00 5341853                    /usr/bin/doorbell
Rss:                1052 kB
Anonymous:         0 kB
5570-5590 r-xp 0027e000 fe:00 5341853                    /usr/bin/doorbell
Rss:                5064 kB
Anonymous:         0 kB
VmFlags: rd ex mr mw me
5590-55a0 rw-p 00c97000 fe:00 5341853                    /usr/bin/doorbell
Anonymous:        16 kB
7f00-7f10 r-xp 00000000 fe:00 17                         /lib/libc.so.6
Anonymous:         4 kB
7f20-7f30 r-xp 00000000 00:00 0                          [vdso]
Anonymous:         0 kB
";

    #[test]
    fn only_code_of_files_that_nobody_changed() {
        let found: Vec<_> = code_mappings(MAPS).map(|range| (range.start, range.end)).collect();
        assert_eq!(found, [(0x5570, 0x5590)]);
        assert_eq!(code_mappings("").count(), 0);
        assert_eq!(code_mappings("nonsense\nAnonymous: 0 kB\n").count(), 0);
    }

    #[test]
    fn what_was_forgotten_runs_again() {
        let bytes = forget_code_pages();
        assert!(bytes > 0 || !std::path::Path::new("/proc/self/smaps").exists());
        let mut words = vec!["b".to_owned(), "a".to_owned()];
        words.sort();
        assert_eq!(words, ["a", "b"]);
    }
}
