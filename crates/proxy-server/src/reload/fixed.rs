//! Keys that a reload cannot change, because they apply to the whole process. Their old values stay
//! in effect, and each changed key is logged.

use doorbell_config::Table;
use doorbell_proxy_config::model::{Compute, Config};

/// Returns the new configuration with the fixed values of the old one, and a sentence for each
/// fixed key that differs. `compute` contains the settings of the running threads of `[compute]`;
/// once started, these threads run until the process ends.
pub(super) fn cannot_change(
    old: &Config,
    compute: Option<&Compute>,
    mut new: Config,
) -> (Config, Vec<String>) {
    let mut keys = Vec::new();
    let mut stay = |key: &str, is_same: bool| {
        if !is_same {
            keys.push(key.to_owned());
        }
    };
    stay("runtime.workers", old.runtime.workers == new.runtime.workers);
    new.runtime.workers = old.runtime.workers;
    if let Some(was) = compute {
        stay_whole("compute", was, &new.compute, &mut stay);
        new.compute.clone_from(was);
    }
    stay("log.format", old.log.format == new.log.format);
    new.log.format = old.log.format;
    stay_whole("control", &old.control, &new.control, &mut stay);
    new.control = old.control.clone();
    match (&old.admin, &mut new.admin) {
        (Some(was), Some(is)) => {
            stay("admin.bind", was.bind == is.bind);
            is.bind = was.bind;
        }
        (was, is) => {
            stay("[admin]", was.is_some() == is.is_some());
            is.clone_from(was);
        }
    }
    stay_whole("systemd", &old.systemd, &new.systemd, &mut stay);
    new.systemd = old.systemd;
    stay("maintenance.file_dir", old.maintenance.file_dir == new.maintenance.file_dir);
    new.maintenance.file_dir.clone_from(&old.maintenance.file_dir);
    stay("lifecycle.state_file", old.lifecycle.state_file == new.lifecycle.state_file);
    new.lifecycle.state_file.clone_from(&old.lifecycle.state_file);
    let sentence = |key: String| {
        format!("{key} cannot change while doorbell runs and keeps its value: restart doorbell")
    };
    (new, keys.into_iter().map(sentence).collect())
}

/// Compares all keys of a table.
fn stay_whole<T: Table>(table: &str, was: &T, is: &T, stay: &mut impl FnMut(&str, bool)) {
    let (was, is) = (was.to_json(true), is.to_json(true));
    for key in T::keys() {
        stay(&format!("{table}.{}", key.name), was.get(key.name) == is.get(key.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::{Source, parse};

    fn config(text: &str) -> Config {
        let source = Source { name: "f".to_owned(), text: format!("version = 1\n{text}") };
        let parsed = parse(&source, &|_| None);
        parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems))
    }

    fn named(stays: &[String]) -> Vec<&str> {
        stays.iter().filter_map(|what| what.split(" cannot change").next()).collect()
    }

    #[test]
    fn fixed_keys_keep_their_values_and_are_named() {
        let old = config("[admin]\n");
        for (text, expected) in [
            ("[admin]\n[runtime]\nworkers = 3\n", &["runtime.workers"][..]),
            ("[admin]\n[log]\nformat = \"text\"\n", &["log.format"]),
            ("[admin]\n[log]\nlevel = \"error\"\n", &[]),
            ("[admin]\ntoken = \"0123456789abcdef0123456789abcdef\"\n", &[]),
            (
                "[admin]\n[control]\nsocket = \"/run/other.sock\"\ngroup = \"adm\"\n",
                &["control.socket", "control.group"],
            ),
            ("", &["[admin]"]),
            ("[admin]\nbind = \"127.0.0.1:9131\"\n", &["admin.bind"]),
            (
                "[admin]\n[systemd]\nnotify = false\nready_on = \"checks\"\nwatchdog = false\nfd_store = \"off\"\n",
                &["systemd.notify", "systemd.ready_on", "systemd.watchdog", "systemd.fd_store"],
            ),
            ("[admin]\n[maintenance]\nfile_dir = \"/tmp/maint\"\n", &["maintenance.file_dir"]),
            ("[admin]\n[lifecycle]\nstate_file = \"/tmp/state\"\n", &["lifecycle.state_file"]),
            // These threads have not been started yet.
            ("[admin]\n[compute]\nthreads = 3\n", &[]),
            ("[admin]\n[lifecycle]\ndrain_delay = \"1s\"\n", &[]),
        ] {
            let wanted = config(text);
            let (new, stays) = cannot_change(&old, None, wanted.clone());
            assert_eq!(named(&stays), expected, "{text}");
            assert_eq!(new == old, !expected.is_empty(), "{text}");
            assert_eq!(new == wanted, expected.is_empty(), "{text}");
        }
    }

    /// Running threads keep their settings across reloads, even if a configuration in between has no
    /// `[compute]`.
    #[test]
    fn running_threads_keep_their_settings() {
        let started = config("[compute]\nthreads = 2\nname = \"first\"\n").compute;
        let (between, stays) = cannot_change(&config(""), Some(&started), config("[compute]\nthreads = 2\n"));
        assert_eq!((named(&stays), &between.compute), (vec!["compute.name"], &started));
        let text = "[compute]\nthreads = 3\nname = \"x\"\ncpus = [0]\nstack_size = \"1MiB\"\nnice = 3\nqueue_high = 1\nqueue_normal = 1\ntimeout = \"1s\"\n";
        let (new, stays) = cannot_change(&between, Some(&started), config(text));
        let keys = ["threads", "name", "cpus", "stack_size", "nice", "queue_high", "queue_normal", "timeout"];
        assert_eq!(named(&stays), keys.map(|key| format!("compute.{key}")));
        assert_eq!(new.compute, started);
    }
}
