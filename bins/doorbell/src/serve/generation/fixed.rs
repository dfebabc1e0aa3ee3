//! What a reload cannot change, because it belongs to the process: it stays, and that is said.
//!
//! Does not know about: what a reload does with the rest.

use crate::config::model::Config;

/// The new configuration with what stays of the old one, and a sentence on each such thing that was to be different.
pub(super) fn cannot_change(old: &Config, mut new: Config) -> (Config, Vec<String>) {
    let mut stays = Vec::new();
    let mut stay = |is_same: bool, what: &str| {
        if !is_same {
            stays.push(format!("{what} cannot change while doorbell runs and stays as it was: restart it"));
        }
    };
    stay(old.runtime.workers == new.runtime.workers, "the number of workers");
    new.runtime.workers = old.runtime.workers;
    // Until something needs the lane, its threads are not there.
    stay(old.compute == new.compute || !old.needs_compute(), "[compute]");
    if old.needs_compute() {
        new.compute = old.compute.clone();
    }
    let (was, is) = (&old.log, &new.log);
    stay((was.level, was.format) == (is.level, is.format), "the level or format of the log");
    (new.log.level, new.log.format) = (old.log.level, old.log.format);
    stay(old.control == new.control, "[control]");
    new.control = old.control.clone();
    stay(old.admin == new.admin, "[admin]");
    new.admin.clone_from(&old.admin);
    stay(old.systemd == new.systemd, "[systemd]");
    new.systemd = old.systemd;
    stay(old.maintenance.file_dir == new.maintenance.file_dir, "maintenance.file_dir");
    new.maintenance.file_dir.clone_from(&old.maintenance.file_dir);
    stay(old.lifecycle.state_file == new.lifecycle.state_file, "lifecycle.state_file");
    new.lifecycle.state_file.clone_from(&old.lifecycle.state_file);
    (new, stays)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, parse};

    fn config(text: &str) -> Config {
        let source = Source { name: "f".to_owned(), text: format!("version = 1\n{text}") };
        let parsed = parse(&source, &|_| None);
        parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems))
    }

    #[test]
    fn what_belongs_to_the_process_stays_and_is_named() {
        let old = config("");
        for (text, expected) in [
            ("[runtime]\nworkers = 3\n", Some("the number of workers")),
            ("[log]\nlevel = \"error\"\n", Some("the level or format of the log")),
            ("[control]\nsocket = \"off\"\n", Some("[control]")),
            ("[admin]\n", Some("[admin]")),
            ("[systemd]\nwatchdog = false\n", Some("[systemd]")),
            ("[maintenance]\nfile_dir = \"/tmp/maint\"\n", Some("maintenance.file_dir")),
            ("[lifecycle]\nstate_file = \"/tmp/state\"\n", Some("lifecycle.state_file")),
            // Nothing needs these threads yet.
            ("[compute]\nthreads = 3\n", None),
            ("[lifecycle]\ndrain_delay = \"1s\"\n", None),
        ] {
            let wanted = config(text);
            let (new, stays) = cannot_change(&old, wanted.clone());
            let said: Vec<_> = expected.into_iter().map(str::to_owned).collect();
            let named: Vec<_> = stays.iter().filter_map(|what| what.split(" cannot change").next()).collect();
            assert_eq!(named, said, "{text}");
            assert_eq!(new == old, expected.is_some(), "{text}");
            assert_eq!(new == wanted, expected.is_none(), "{text}");
        }
    }
}
