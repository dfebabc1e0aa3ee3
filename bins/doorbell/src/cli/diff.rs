//! `doorbell config diff`: compares two configuration files key by key.

use super::load;
use super::options::ColorWhen;
use super::output::{print, print_error, print_problems};
use clap::Args;
use doorbell_proxy_config::{Config, parse, to_json};
use doorbell_proxy_server::exit::{Exit, Failure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) const HELP: &str = "\
Examples:
  doorbell config diff doorbell.toml doorbell.new.toml
  git show HEAD:doorbell.toml | doorbell config diff - doorbell.toml

Files are compared with defaults applied. Secrets are compared but not shown.

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

pub(super) fn run(args: &DiffArgs) -> Result<Exit, Failure> {
    let (was, is) = (config(&args.old)?, config(&args.new)?);
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
    if text.is_empty() && was != is {
        text.push_str("~ a secret or the order of tables differs; secrets are not shown\n");
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

fn config(path: &Path) -> Result<Config, Failure> {
    let source = load::read_source(path)?;
    // Environment overrides are not applied: both files would get the same values.
    let parsed = parse(&source, &load::env);
    parsed.config.ok_or_else(|| {
        print_problems(&source, &parsed.problems, ColorWhen::Auto);
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
