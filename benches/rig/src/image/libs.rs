//! The shared libraries of a program, from the output of its loader.

use std::path::{Path, PathBuf};

use crate::error::RigError;
use crate::tool;

/// Absolute paths of the loader and of every library of `program`. A static program has none.
pub(crate) fn of(program: &Path) -> Result<Vec<PathBuf>, RigError> {
    let file = program.to_string_lossy();
    match tool::capture("ldd", "libc-bin", &[&file], Path::new("/")) {
        Ok(listed) => parse(&listed).map_err(|library| {
            RigError::command(format!("ldd {file}"), format!("{library} was not found on this machine"))
        }),
        Err(RigError::Command { detail, .. }) if detail.contains("not a dynamic executable") => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Parses lines of the form `name => /path (0x..)`, `/path (0x..)` for the loader, and
/// `linux-vdso.so.1 (0x..)`, which is not a file.
fn parse(listed: &str) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for line in listed.lines().map(str::trim) {
        let (name, right) = line.split_once(" => ").unwrap_or((line, line));
        if right.starts_with("not found") {
            return Err(name.to_owned());
        }
        if let Some(path) = right.split(" (").next().filter(|path| path.starts_with('/')) {
            paths.push(PathBuf::from(path));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected: Vec<PathBuf> =
            ["/lib/x86_64-linux-gnu/libz.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from).into();
        assert_eq!(parse(listed), Ok(expected));
        assert_eq!(parse("\tstatically linked\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_library_that_is_not_there() {
        assert_eq!(parse("\tlibpcre.so.3 => not found\n"), Err("libpcre.so.3".to_owned()));
    }

    #[test]
    fn this_test_has_libraries_that_exist() {
        let found = of(&std::env::current_exe().unwrap()).unwrap();
        assert!(found.iter().any(|path| path.to_string_lossy().contains("libc.so")), "{found:?}");
        assert!(found.iter().all(|path| path.is_file()), "{found:?}");
    }
}
