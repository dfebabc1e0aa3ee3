//! Looks up the number of a group.
//!
//! Only `/etc/group` is read, so groups of a directory service must be configured by number.

use std::fs;

/// Parses a group number, or looks up the number of a group name in `/etc/group`.
pub(super) fn number_of(group: &str) -> Option<u32> {
    group.parse().ok().or_else(|| find(&fs::read_to_string("/etc/group").ok()?, group))
}

/// Finds the number of a group name in lines of `name:password:number:members` (group(5)).
fn find(groups: &str, name: &str) -> Option<u32> {
    let mut lines = groups.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let is_it = fields.next() == Some(name);
        fields.nth(1).filter(|_| is_it)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_its_number() {
        let groups = "root:x:0:\nadm:x:4:syslog,ops\nbroken\n4:x:77:\n";
        assert_eq!(find(groups, "adm"), Some(4));
        assert_eq!([find(groups, "x"), find(groups, "ad"), find(groups, "broken")], [None; 3]);
        assert_eq!(number_of("1234"), Some(1234));
    }
}
