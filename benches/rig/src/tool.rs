//! Runs external programs, and reports their paths, output and failures.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::RigError;

/// Folders of daemons, which are not always in the PATH of a user.
const MORE_FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Maximum number of output lines shown for a failed program.
const DETAIL_LINES_MAX: usize = 12;

/// Returns the path of a program. If it is missing, the error suggests `package`.
pub(crate) fn find(program: &str, package: &str) -> Result<PathBuf, RigError> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(MORE_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| RigError::Missing { program: program.to_owned(), package: package.to_owned() })
}

/// Runs `program` of the Debian package `package`, and returns its standard output.
pub(crate) fn capture(
    program: &str,
    package: &str,
    args: &[&str],
    folder: &Path,
) -> Result<String, RigError> {
    let mut command = Command::new(find(program, package)?);
    command.args(args).current_dir(folder);
    output(&mut command)
}

/// Runs a prepared command and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, RigError> {
    let shown = show(command);
    let done = command.output().map_err(|error| RigError::command(&shown, error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let mut detail = tail(&String::from_utf8_lossy(&done.stderr));
    if detail.is_empty() {
        detail = done.status.to_string();
    }
    Err(RigError::command(shown, detail))
}

/// The last lines of `text`.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(DETAIL_LINES_MAX)..].join("\n")
}

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = find("no-such-program-of-ours", "the-package").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`no-such-program-of-ours` is not installed; it is in the Debian package the-package"
        );
    }

    #[test]
    fn a_failure_shows_the_end_of_what_was_said() {
        let args = ["-c", "seq 1 40 >&2; exit 3"];
        let error = capture("sh", "dash", &args, Path::new("/")).unwrap_err().to_string();
        assert!(error.ends_with("39\n40"), "{error}");
        assert!(!error.contains("\n20\n"), "{error}");
    }

    #[test]
    fn a_silent_failure_shows_its_status() {
        let error = capture("sh", "dash", &["-c", "exit 3"], Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }
}
