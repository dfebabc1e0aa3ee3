//! Access to apt: the suites that this machine is configured for, and other suites of the same
//! mirror through a private root.
//!
//! The apt configuration of the machine is not changed. A private root has its own list of sources,
//! package lists and cache below cargo's target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::RigError;
use crate::tool;

/// Maximum age of the package lists in a private root. The lists name files that the mirror deletes
/// after some time.
const LISTS_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Options of a private root: only the indexes with names, versions and addresses of packages, and
/// no clean-up of the lists.
const LEAN: [&str; 4] = [
    "Acquire::Languages=none",
    "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
    "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
    "APT::Get::List-Cleanup=false",
];

/// apt with its options. The machine's transport settings always apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// Uses the configuration of the machine.
    pub(crate) fn machine() -> Self {
        Self::default()
    }

    /// Uses another suite of Debian from the mirror of the machine.
    ///
    /// # Errors
    /// When the mirror lacks the suite, or the machine has no Debian mirror.
    pub(crate) fn suite(suite: &str, cache: &Path) -> Result<Self, RigError> {
        let root = cache.join(format!("apt-{suite}"));
        let apt = Self::with_root(&root);
        if is_fresh(&root.join("fetched")) {
            return Ok(apt);
        }
        // The root is created in a temporary folder and then moved, so that a failed update leaves
        // nothing behind and concurrent runs do not collide.
        let new = cache.join(format!("apt-{suite}-{}", std::process::id()));
        let made = fetch_lists(suite, &new, cache);
        if made.is_ok() {
            // An existing folder is outdated or from a concurrent run, and may be replaced in both
            // cases.
            let _ = fs::remove_dir_all(&root);
            let _ = fs::rename(&new, &root);
        }
        let _ = fs::remove_dir_all(&new);
        let unavailable =
            |error: RigError| RigError::Suite { suite: suite.into(), detail: error.to_string() };
        made.map_err(unavailable).map(|()| apt)
    }

    /// Runs `apt-cache` or `apt-get` in `folder`.
    pub(crate) fn run(&self, program: &str, words: &[&str], folder: &Path) -> Result<String, RigError> {
        let mut args: Vec<&str> = self.options.iter().flat_map(|option| ["-o", option.as_str()]).collect();
        args.extend(words);
        tool::capture(program, "apt", &args, folder)
    }

    fn with_root(root: &Path) -> Self {
        let path = |name: &str| root.join(name).display().to_string();
        let own = [
            format!("Dir::Etc::sourcelist={}", path("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", path("lists")),
            format!("Dir::State::status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
        ];
        Self { options: own.into_iter().chain(LEAN.map(str::to_owned)).collect() }
    }
}

fn is_fresh(stamp: &Path) -> bool {
    let age = fs::metadata(stamp).ok().and_then(|file| file.modified().ok()?.elapsed().ok());
    age.is_some_and(|age| age < LISTS_AGE_MAX)
}

/// Creates the folder `root` with the list of sources and the package lists.
fn fetch_lists(suite: &str, root: &Path, cache: &Path) -> Result<(), RigError> {
    let shown = tool::capture("apt-get", "apt", &["indextargets", "--format", TARGET, TARGETS], cache)?;
    let lacks_mirror = "names no mirror of Debian; `apt-get update` may help";
    let source =
        source_of(&shown, suite).ok_or_else(|| RigError::command("apt-get indextargets", lacks_mirror))?;
    for folder in ["lists/partial", "cache/archives/partial"].map(|name| root.join(name)) {
        fs::create_dir_all(&folder).map_err(RigError::io(&folder))?;
    }
    for (name, text) in [("status", ""), ("sources.list", source.as_str())] {
        fs::write(root.join(name), text).map_err(RigError::io(root.join(name)))?;
    }
    // For a missing suite `update` only warns, and creates no package list.
    let said =
        Apt::with_root(root).run("apt-get", &["update", "-q", "-o", "APT::Update::Error-Mode=any"], cache)?;
    let listed = fs::read_dir(root.join("lists")).map_err(RigError::io(root))?;
    if !listed.filter_map(Result::ok).any(|file| file.file_name().to_string_lossy().contains("_Packages")) {
        return Err(RigError::command("apt-get update", tool::tail(&said)));
    }
    fs::write(root.join("fetched"), "").map_err(RigError::io(root))
}

const TARGETS: &str = "Created-By: Packages";
const TARGET: &str = "$(REPO_URI) $(ORIGIN) $(LABEL) $(COMPONENT) $(SIGNED_BY)";

/// Returns the line for `sources.list`, derived from the sources of the machine.
fn source_of(targets: &str, suite: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let uri = words.next()?;
        if [words.next()?, words.next()?, words.next()?] != ["Debian", "Debian", "main"] {
            return None;
        }
        // In apt's output, variables without a value are not expanded.
        let key = words.next().filter(|key| key.starts_with('/'));
        let options = key.map_or_else(String::new, |key| format!("[signed-by={key}] "));
        Some(format!("deb {options}{uri} {suite} main\n"))
    })
}

/// Folder name for the cache of one package. Characters that are unsuitable for a path are
/// replaced.
pub(crate) fn folder_name(package: &str, version: &str) -> PathBuf {
    PathBuf::from(format!("{package}_{}", version.replace([':', '~'], "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_machines_own() {
        let targets = "http://a.example/debian-security/ Debian Debian-Security main $(SIGNED_BY)\n\
                       http://b.example/tools/ Tools Tools main /k.gpg\n\
                       http://c.example/debian/ Debian Debian contrib /k.gpg\n\
                       http://c.example/debian/ Debian Debian main /usr/share/keyrings/k.gpg\n";
        assert_eq!(
            source_of(targets, "bullseye").unwrap(),
            "deb [signed-by=/usr/share/keyrings/k.gpg] http://c.example/debian/ bullseye main\n"
        );
        let unsigned = "http://c.example/debian/ Debian Debian main $(SIGNED_BY)\n";
        assert_eq!(source_of(unsigned, "sid").unwrap(), "deb http://c.example/debian/ sid main\n");
        assert_eq!(source_of("", "sid"), None);
        assert_eq!(source_of("http://c.example/debian/ Debian\n", "sid"), None);
    }

    #[test]
    fn a_private_root_touches_nothing_of_the_machine() {
        let options = Apt::with_root(Path::new("/r")).options;
        for name in ["Dir::Etc::sourcelist", "Dir::State::lists", "Dir::State::status", "Dir::Cache"] {
            assert!(options.iter().any(|option| option.starts_with(&format!("{name}=/r/"))), "{name}");
        }
        assert_eq!(Apt::machine().options, [""; 0]);
    }

    #[test]
    fn versions_make_paths() {
        assert_eq!(folder_name("busybox", "1:1.35~x"), PathBuf::from("busybox_1_1.35_x"));
    }
}
