//! Owns the release of resident code pages, most of which only the start of the program needs.
#![expect(unsafe_code, reason = "madvise")]

use std::ops::Range;

use rustix::param::page_size;

/// Releases the resident pages of executable code of the program and its libraries. Most of the
/// code that runs at the start (options, files, self-tests) never runs again.
///
/// A released page that is used again is read from the page cache, sixteen pages per fault. Returns
/// the total length of the released mappings in bytes; 0 without `/proc`.
///
/// Mappings with modified pages, for example after a debugger set a breakpoint, are skipped.
/// Mappings unknown to the loader are skipped too: another thread may unmap such a range and reuse
/// it right after `/proc` listed it as the mapping of a file.
pub fn forget_code_pages() -> usize {
    let mut forgetting = Forgetting { clean: None, bytes: 0 };
    let data = (&raw mut forgetting).cast();
    // SAFETY: R-7, `forgetting` lives until the call returns, and `forget_object` casts the pointer
    // back to its type.
    unsafe { libc::dl_iterate_phdr(Some(forget_object), data) };
    forgetting.bytes
}

/// Input and result of [`forget_object`].
struct Forgetting {
    /// Unmodified mappings of code, read under the loader's lock.
    clean: Option<Vec<Range<usize>>>,
    bytes: usize,
}

/// Releases the code of one loaded object. The loader holds its lock during the call, so no object
/// is loaded or unloaded.
unsafe extern "C" fn forget_object(
    object: *mut libc::dl_phdr_info,
    _len: libc::size_t,
    data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: R-7, the loader's description of an object, valid during this call.
    let object = unsafe { &*object };
    // SAFETY: R-7, the caller's `forgetting`, which has no other reference during this call.
    let forgetting = unsafe { &mut *data.cast::<Forgetting>() };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: R-7, the loader provides the number of headers, which are part of the object.
    let segments = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let clean = forgetting.clean.get_or_insert_with(|| {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        code_mappings(&maps).collect()
    });
    let number = |word| usize::try_from(word).unwrap_or(usize::MAX);
    for segment in segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD) {
        let start = number(object.dlpi_addr).wrapping_add(number(segment.p_vaddr));
        let segment = start..start.saturating_add(number(segment.p_memsz));
        let Some(range) = clean.iter().find(|range| is_mapping_of(range, &segment, page_size())) else {
            continue;
        };
        // SAFETY: R-12, a mapping of the object's code without a modified page.
        let failed =
            unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) };
        forgetting.bytes += if failed == 0 { range.len() } else { 0 };
    }
    0
}

/// Whether a mapping covers exactly the pages of a segment.
fn is_mapping_of(mapping: &Range<usize>, segment: &Range<usize>, page_len: usize) -> bool {
    let (start, end) = (segment.start / page_len * page_len, segment.end.checked_next_multiple_of(page_len));
    mapping.start == start && Some(mapping.end) == end
}

/// Executable private file mappings, without those that contain a modified page: modified pages are
/// counted as anonymous (proc(5), `smaps`).
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

/// Parses the first line of a mapping: `None` if the line does not start a mapping, `Some(None)` if
/// the mapping is irrelevant.
#[expect(clippy::option_option, reason = "no first line and an irrelevant mapping are different results")]
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
    fn only_code_of_unmodified_files() {
        let found: Vec<_> = code_mappings(MAPS).map(|range| (range.start, range.end)).collect();
        assert_eq!(found, [(0x5570, 0x5590)]);
        assert_eq!(code_mappings("").count(), 0);
        assert_eq!(code_mappings("nonsense\nAnonymous: 0 kB\n").count(), 0);
    }

    #[test]
    fn the_mapping_of_a_segment_has_its_pages_and_no_others() {
        let segment = 0x5123..0x8456;
        assert!(is_mapping_of(&(0x5000..0x9000), &segment, 0x1000));
        for other in [0x5000..0x8000, 0x5000..0xa000, 0x4000..0x9000, 0x6000..0x9000, 0..0] {
            assert!(!is_mapping_of(&other, &segment, 0x1000), "{other:x?}");
        }
        assert!(is_mapping_of(&(0..0x10000), &segment, 0x10000), "with larger pages");
        assert!(!is_mapping_of(&(0x5000..usize::MAX), &(0x5000..usize::MAX), 0x1000));
    }

    /// Resident bytes of the mapping that begins at `start`.
    fn resident(start: usize) -> Option<usize> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let of_it = maps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        let rss = of_it.skip(1).find_map(|line| line.strip_prefix("Rss:"))?;
        rss.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kib| kib * 1024)
    }

    /// A mapping that the loader does not know is never touched: after its range was read, another
    /// thread may unmap it and map other memory at the same range.
    #[test]
    fn a_mapping_unknown_to_the_loader_is_left_alone() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let len = 16 * 4096;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let code = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: R-7, numbers only; the kernel chooses an unused address.
        let mapped = unsafe {
            libc::mmap(std::ptr::null_mut(), len, code, libc::MAP_PRIVATE | libc::MAP_POPULATE, fd, 0)
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        let before = resident(mapped.addr());
        forget_code_pages();
        assert_eq!(resident(mapped.addr()), before);
        assert!(before.is_none_or(|bytes| bytes > 0));
        // SAFETY: R-9, the whole mapping that was made above; no reference to it exists.
        assert_eq!(unsafe { libc::munmap(mapped, len) }, 0);
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
