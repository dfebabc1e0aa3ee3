//! Owns the pages of the program's own code: those that only the start needed are given back.
//! Does not know about: rings.
#![expect(unsafe_code, reason = "madvise")]

use std::ops::Range;

use rustix::param::page_size;

/// Takes the pages of executable code out of this process, of the program and of its libraries: most of what ran at the start (options, files,
/// self-tests) never runs again. What does comes back from the page cache, sixteen pages with each fault. Returns the bytes of the mappings;
/// 0 where `/proc` is not there.
///
/// Mappings that anybody wrote to, as debuggers do, stay as they are. So does what the loader does not know: another thread may
/// unmap such a range and have memory there a moment after `/proc` said that it is a file's.
pub fn forget_code_pages() -> usize {
    let mut forgetting = Forgetting { clean: None, bytes: 0 };
    let data = (&raw mut forgetting).cast();
    // SAFETY: R-7, `forgetting` lives until the call returns, and `forget_object` gets it back as what it is.
    unsafe { libc::dl_iterate_phdr(Some(forget_object), data) };
    forgetting.bytes
}

/// What [`forget_object`] needs.
struct Forgetting {
    /// Mappings of code of which no page was changed, as they are under the loader's lock.
    clean: Option<Vec<Range<usize>>>,
    bytes: usize,
}

/// Forgets the code of one loaded object. The loader's lock is held: no object comes or goes meanwhile.
unsafe extern "C" fn forget_object(
    object: *mut libc::dl_phdr_info,
    _len: libc::size_t,
    data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: R-7, the loader's description of an object, which lives during this call.
    let object = unsafe { &*object };
    // SAFETY: R-7, the caller's `forgetting`, to which nothing else refers during this call.
    let forgetting = unsafe { &mut *data.cast::<Forgetting>() };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: R-7, the loader says how many headers there are; they are part of the object.
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
        // SAFETY: R-12, a mapping of the object's code of which nothing was changed.
        let failed =
            unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) };
        forgetting.bytes += if failed == 0 { range.len() } else { 0 };
    }
    0
}

/// Whether a mapping is that of a segment: the pages in which it lies, all of them and no others.
fn is_mapping_of(mapping: &Range<usize>, segment: &Range<usize>, page_len: usize) -> bool {
    let (start, end) = (segment.start / page_len * page_len, segment.end.checked_next_multiple_of(page_len));
    mapping.start == start && Some(mapping.end) == end
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
    fn the_mapping_of_a_segment_has_its_pages_and_no_others() {
        let segment = 0x5123..0x8456;
        assert!(is_mapping_of(&(0x5000..0x9000), &segment, 0x1000));
        for other in [0x5000..0x8000, 0x5000..0xa000, 0x4000..0x9000, 0x6000..0x9000, 0..0] {
            assert!(!is_mapping_of(&other, &segment, 0x1000), "{other:x?}");
        }
        assert!(is_mapping_of(&(0..0x10000), &segment, 0x10000), "where pages are longer");
        assert!(!is_mapping_of(&(0x5000..usize::MAX), &(0x5000..usize::MAX), 0x1000));
    }

    /// Bytes of the mapping that begins here which are in this process now.
    fn resident(start: usize) -> Option<usize> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let of_it = maps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        let rss = of_it.skip(1).find_map(|line| line.strip_prefix("Rss:"))?;
        rss.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kib| kib * 1024)
    }

    /// Where another thread unmaps a file and maps something else, the range that was read a moment ago is not a file's: no mapping may be
    /// touched that can go away.
    #[test]
    fn a_mapping_that_anybody_may_unmap_is_left_alone() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let len = 16 * 4096;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let code = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: R-7, numbers only; the kernel chooses an address that nothing else has.
        let mapped = unsafe {
            libc::mmap(std::ptr::null_mut(), len, code, libc::MAP_PRIVATE | libc::MAP_POPULATE, fd, 0)
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        let before = resident(mapped.addr());
        forget_code_pages();
        assert_eq!(resident(mapped.addr()), before);
        assert!(before.is_none_or(|bytes| bytes > 0));
        // SAFETY: R-9, the whole mapping that was made above, and nothing refers to it.
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
