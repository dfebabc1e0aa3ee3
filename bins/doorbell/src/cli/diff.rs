//! `doorbell config diff`: what another file means that this one does not.
//!
//! Does not know about: how files are read, what a difference does.

use super::load;
use super::options::ColorWhen;
use super::output::{print, print_error, print_problems};
use crate::config::{Config, Overrides, parse_over, to_json};
use crate::exit::{Exit, Failure};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) const HELP: &str = "\
Examples:
  doorbell config diff doorbell.toml doorbell.new.toml
  git show HEAD:doorbell.toml | doorbell config diff - doorbell.toml

Defaults are filled in before files are compared. Secrets are compared and not shown.

Exit codes: 0 they mean the same, 1 they do not, 2 wrong command line, 78 one of them cannot be used";

/// Options of `config diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The file as it was, `-` for standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The file as it is to be
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
        text.push_str("~ a secret is another one, or tables are in another order; secrets are not shown\n");
    }
    print(&text)?;
    Ok(if text.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Every key with its value, under its whole name.
fn keys(config: &Config) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    flatten(String::new(), &to_json(config, true), &mut keys);
    keys
}

fn config(path: &Path) -> Result<Config, Failure> {
    let source = load::read_source(path)?;
    // Variables would be the same for both.
    let parsed = parse_over(&source, &|name| std::env::var(name).ok(), &Overrides::default());
    parsed.config.ok_or_else(|| {
        print_problems(&source, &parsed.problems, ColorWhen::Auto);
        print_error("\n");
        Failure::new(Exit::BadConfig, format!("{} cannot be used: see above", source.name))
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
