//! Validates the files that a configuration names (existence, permissions, contents), and reads the
//! contents of replies.

mod jwt;
mod tls;

use super::bind::Bind;
use super::model::{AccessFile, Config};
use doorbell::http::linkmap::{LinkMap, MAP_BYTES_MAX};
use doorbell_checks::options::{CheckKind, ClientTls, ExecCheck};
use doorbell_config::{At, Places, Problem, Problems};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Maximum size of a reply's content file; each generation keeps a copy of the content.
const REPLY_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of reported errors of a link map (`redirect.map`); further errors are only
/// counted.
const MISTAKES_SHOWN_MAX: usize = 5;

/// Current time in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "read once, when a configuration is loaded")]
pub(super) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Validates all files except those of replies ([`read_replies`]) and secrets ([`check_secrets`]).
/// `unix_secs` is the current time.
pub(super) fn check(config: &Config, places: &Places, unix_secs: i64, problems: &Problems) {
    for tls in &config.tls {
        tls::check(tls, unix_secs, problems);
    }
    config.links.iter().for_each(|links| tls::check_links(links, unix_secs, problems));
    for check in &config.checks {
        if let CheckKind::Exec(exec) = &check.kind {
            check_program(exec, places.key(["check", &check.name, "command"]), problems);
        }
    }
    for (table, tls) in clients(config) {
        tls::check_client(tls, |key| places.get(&format!("{table}.tls.{key}")), unix_secs, problems);
    }
    for auth in &config.auth {
        if let Some(jwt) = &auth.jwt {
            jwt::check(jwt, problems);
        }
    }
    let agents = config.agents.iter().flat_map(|agent| &agent.binds);
    config
        .listeners
        .iter()
        .flat_map(|listener| &listener.binds)
        .chain(agents)
        .for_each(|bind| check_path(bind, problems));
    if let (AccessFile::Path(path), Some(place)) = (&config.log.access_file, places.get("log.access_file")) {
        check_access_file(path, place, problems);
    }
    let state_file = config.lifecycle.state_file.clone();
    if let (Some(value), Some(span)) = (state_file, places.get("lifecycle.state_file")) {
        check_state_file(&At { value, span }, problems);
    }
    for route in &config.routes {
        if let Some(map) = route.redirect.as_ref().and_then(|redirect| redirect.map.as_ref()) {
            check_links(map, problems);
        }
        let place = places.key(["route", &route.name, "files.dir"]);
        if let Some(files) = &route.files
            && let Some(place) = place.filter(|place| !problems.has_error_at(place) && !files.dir.is_dir())
        {
            let message = format!("there is no directory {:?}", files.dir);
            problems.add(
                Problem::warning("missing-directory", place, message)
                    .help("create it; until then its files get 404"),
            );
        }
    }
}

/// TLS settings of checks, blackbox modules, `[shared]` and `[history.clickhouse]`, each with the
/// dotted name of the table that contains `tls`.
fn clients(config: &Config) -> impl Iterator<Item = (String, &ClientTls)> {
    let of_checks =
        config.checks.iter().filter_map(|check| Some((format!("check.{}", check.name), check.kind.tls()?)));
    let modules = config.blackbox.iter().flat_map(|blackbox| &blackbox.own_modules);
    let of_modules =
        modules.filter_map(|module| Some((format!("blackbox.module.{}", module.name), module.kind.0.tls()?)));
    let of_shared = config.shared.iter().filter_map(|shared| shared.tls.as_ref());
    let history = config.history.clickhouse.iter();
    let of_history = history.filter_map(|clickhouse| clickhouse.tls.as_ref());
    of_checks
        .chain(of_modules)
        .chain(of_shared.map(|tls| ("shared".to_owned(), tls)))
        .chain(of_history.map(|tls| ("history.clickhouse".to_owned(), tls)))
}

/// Reads the contents of replies from their files.
pub(super) fn read_replies(config: &mut Config, problems: &Problems) {
    for reply in config.routes.iter_mut().filter_map(|route| route.reply.as_mut()) {
        let content = reply.file.as_ref().and_then(|file| read(file, REPLY_BYTES_MAX, problems));
        reply.content.0 = content.unwrap_or_default();
    }
}

/// Validates the permissions of files with secrets.
pub(super) fn check_secrets(files: &[At<PathBuf>], problems: &Problems) {
    for file in files {
        check_private("secret-readable", file, problems);
    }
}

/// Warns if the mode of this file lets every user read or change it.
fn check_private(code: &'static str, file: &At<PathBuf>, problems: &Problems) {
    let Ok(meta) = std::fs::metadata(&file.value) else { return };
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o006 != 0 {
        let can = if mode & 0o004 != 0 { "read" } else { "change" };
        let message = format!("every user of this machine can {can} {:?} (mode {mode:o})", file.value);
        let problem = Problem::warning(code, file.span.clone(), message);
        problems.add(problem.help(format!("`chmod o-rwx {}`", file.value.display())));
    }
}

/// Reports a bind path that exists and is not a socket: binding only replaces an unused socket.
fn check_path(bind: &At<Bind>, problems: &Problems) {
    let Bind::Unix(path) = &bind.value else { return };
    if std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket()) {
        let message = format!("{path:?} is a file that is not a socket");
        let problem = Problem::error("not-a-socket", bind.span.clone(), message);
        problems.add(problem.help("remove the file, or choose another path"));
    }
}

fn check_program(exec: &ExecCheck, place: Option<Range<usize>>, problems: &Problems) {
    let (Some(program), Some(place)) = (exec.command.first(), place) else { return };
    let meta = std::fs::metadata(program);
    if !meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0) {
        let problem = Problem::warning("missing-program", place, format!("there is no program {program:?}"));
        problems.add(problem.help("install it, or make it executable; until then the check is down"));
    }
}

fn check_access_file(path: &Path, place: Range<usize>, problems: &Problems) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if path.is_dir() || parent.is_some_and(|parent| !parent.is_dir()) {
        let message =
            format!("{path:?} cannot be written: its directory does not exist, or it is itself a directory");
        problems.add(
            Problem::error("missing-directory", place, message)
                .help("create the directory, or name another file; \"-\" is standard output"),
        );
    }
}

fn check_state_file(at: &At<PathBuf>, problems: &Problems) {
    if let Err(error) = check_writable(&at.value) {
        let message = format!("{:?} cannot be written: {error}", at.value);
        problems.add(
            Problem::warning("unwritable-state", at.span.clone(), message)
                .help("name a file in a directory that belongs to the user of doorbell; without a state file, drains and maintenance are lost at a restart"),
        );
    }
}

/// Checks that the user of the process can create the file and its missing directories.
fn check_writable(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    let is_there = |folder: &&Path| folder.symlink_metadata().is_ok();
    let folder = path.ancestors().skip(1).find(is_there).unwrap_or_else(|| Path::new("."));
    if !folder.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Validates a link map with the parser that `doorbell serve` uses.
fn check_links(map: &At<PathBuf>, problems: &Problems) {
    let Some(bytes) = read(map, MAP_BYTES_MAX as u64, problems) else { return };
    let Ok(text) = String::from_utf8(bytes) else {
        let message = format!("{:?} is not text", map.value);
        let problem = Problem::error("bad-links", map.span.clone(), message);
        problems.add(problem.help("write lines of `/from https://to` in UTF-8"));
        return;
    };
    let mistakes = LinkMap::parse(&text).err().unwrap_or_default();
    for mistake in mistakes.iter().take(MISTAKES_SHOWN_MAX) {
        let message = format!("{}:{mistake}", map.value.display());
        problems.add(Problem::error("bad-links", map.span.clone(), message).help(mistake.problem.help()));
    }
    if let Some(more) = mistakes.len().checked_sub(MISTAKES_SHOWN_MAX).filter(|more| *more > 0) {
        let message = format!("{more} more lines of {} are wrong", map.value.display());
        problems.add(Problem::error("bad-links", map.span.clone(), message));
    }
}

/// The content of a file; `None` after reporting a problem.
fn read(path: &At<PathBuf>, len_max: u64, problems: &Problems) -> Option<Vec<u8>> {
    let why = match read_whole(&path.value, len_max) {
        Ok(bytes) if bytes.len() as u64 <= len_max => return Some(bytes),
        Ok(_) => format!("it is longer than {len_max} bytes"),
        Err(error) => error.to_string(),
    };
    problems.add(cannot_read(path, &why));
    None
}

fn read_whole(path: &Path, len_max: u64) -> std::io::Result<Vec<u8>> {
    // Reading a pipe would block, and a device may have no end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(len_max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn cannot_read(path: &At<PathBuf>, why: &str) -> Problem {
    Problem::error("missing-file", path.span.clone(), format!("{:?} cannot be read: {why}", path.value))
        .help("create the file, readable for the user of the process")
}
