//! Parses the checks that a query excludes: `?exclude=NAME`, repeated for each check, as in the
//! Kubernetes API server.

/// Maximum number of names in a query. Further names are ignored, to bound the work for a request.
const NAMES_MAX: usize = 32;

/// Returns the names in order of first appearance, without duplicates; `None` if there are none.
pub(super) fn excluded(query: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let parts = query.split(|&byte| byte == b'&').filter_map(|part| part.strip_prefix(b"exclude="));
    for part in parts.take(NAMES_MAX) {
        let name = decode(part);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Decodes a value of a query: `%XX`, and `+` for a space. Invalid UTF-8 is replaced.
fn decode(part: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let [first, after @ ..] = rest {
        let escaped = (*first == b'%').then(|| Some(digit(*after.first()?)? << 4 | digit(*after.get(1)?)?));
        rest = match (first, escaped.flatten()) {
            (_, Some(byte)) => {
                bytes.push(byte);
                &after[2..]
            }
            (b'+', None) => {
                bytes.push(b' ');
                after
            }
            (byte, None) => {
                bytes.push(*byte);
                after
            }
        };
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_queries() {
        for (query, expected) in [
            ("", None),
            ("verbose", None),
            ("exclude", None),
            ("excluded=a", None),
            ("exclude=", Some(vec![""])),
            ("exclude=db", Some(vec!["db"])),
            ("verbose&exclude=db&exclude=cache", Some(vec!["db", "cache"])),
            ("exclude=b&exclude=a&exclude=b", Some(vec!["b", "a"])),
            ("exclude=a%2Fb+c%20d", Some(vec!["a/b c d"])),
            ("exclude=%", Some(vec!["%"])),
            ("exclude=%4", Some(vec!["%4"])),
            ("exclude=%zz%41", Some(vec!["%zzA"])),
            ("exclude=%ff", Some(vec!["\u{fffd}"])),
            ("exclude=a,b", Some(vec!["a,b"])),
        ] {
            let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(excluded(query.as_bytes()), expected, "{query:?}");
        }
    }

    #[test]
    fn names_are_counted() {
        let query: Vec<String> = (0..1000).map(|number| format!("exclude=c{number}")).collect();
        let names = excluded(query.join("&").as_bytes()).unwrap();
        assert_eq!((names.len(), names.last().unwrap().as_str()), (NAMES_MAX, "c31"));
    }
}
