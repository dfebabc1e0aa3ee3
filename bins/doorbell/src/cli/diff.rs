//! `doorbell config diff`: compares two configuration files key by key.

use super::load;
use super::options::Global;
use super::output::{print, print_error, print_problems};
use clap::Args;
use doorbell_proxy_config::{Config, Source, parse, to_json, to_sorted};
use doorbell_proxy_server::exit::{Exit, Failure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  doorbell config diff doorbell.toml doorbell.new.toml
  git show HEAD:doorbell.toml | doorbell config diff - doorbell.toml

Files are compared with defaults applied; the order of tables does not count. Secrets are compared but not shown.

Exit codes: 0 equal, 1 different, 2 invalid command line, 78 one of the files is invalid";

/// Options of `config diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Old file; `-` reads standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// New file; `-` reads standard input
    #[arg(value_name = "NEW")]
    new: PathBuf,
}

pub(super) fn run(args: &DiffArgs, global: &Global) -> Result<Exit, Failure> {
    let [before, after] = [load::read_source(&args.old)?, load::read_source(&args.new)?];
    let (was, is) = (config(&before, global)?, config(&after, global)?);
    let (old, new) = (keys(&was), keys(&is));
    let mut text = String::new();
    let all: BTreeMap<&String, ()> = old.keys().chain(new.keys()).map(|key| (key, ())).collect();
    for key in all.into_keys() {
        let (before, after) = (old.get(key), new.get(key));
        if before != after {
            text.extend(before.map(|value| format!("- {key} = {value}\n")));
            text.extend(after.map(|value| format!("+ {key} = {value}\n")));
        }
    }
    let sorted = |source: &Source, config: &Config| {
        let source = Source { name: source.name.clone(), text: to_sorted(config, &source.text)? };
        parse(&source, &load::env).config
    };
    let is_other_order = || sorted(&before, &was).is_some_and(|was| sorted(&after, &is) == Some(was));
    if text.is_empty() && was != is && !is_other_order() {
        text.push_str("~ a secret differs; secrets are not shown\n");
    }
    print(&text)?;
    Ok(if text.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Maps the full name of every key to its value.
fn keys(config: &Config) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    flatten(String::new(), &to_json(config, true), &mut keys);
    keys
}

fn config(source: &Source, global: &Global) -> Result<Config, Failure> {
    // Environment overrides are not applied: both files would get the same values.
    let parsed = parse(source, &load::env);
    parsed.config.ok_or_else(|| {
        print_problems(source, &parsed.problems, global.color);
        print_error("\n");
        Failure::new(Exit::BadConfig, format!("{} is invalid: see above", source.name))
    })
}

fn flatten(name: String, value: &Value, keys: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(table) if !table.is_empty() => {
            for (key, value) in table {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(name, value, keys);
            }
        }
        value => {
            keys.insert(name, value.to_string());
        }
    }
}
