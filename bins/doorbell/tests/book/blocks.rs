//! Code blocks: configurations are valid.
//!
//! Does not know about: pages.

use crate::page::Block;
use doorbell_proxy::config::{Outside, Severity, Source, parse_with};
use std::path::Path;

/// What a block may be. Commands stand in `console` or `sh`, where they are checked.
pub(crate) const LANGUAGES: [&str; 8] = ["console", "ini", "json", "nginx", "sh", "text", "toml", "yaml"];

/// What a fragment is appended to.
const SCAFFOLD: &str = "version = 1\n[listener.probes]\nbind = \"127.0.0.1:8080\"\n";

/// `toml` is a whole configuration without a problem, `toml,fragment` a part of one without an error; `toml,ignore` has a
/// comment above that says why.
pub(crate) fn configuration(block: &Block) -> Result<usize, String> {
    let (text, is_whole) = match &*block.info {
        "toml" => (block.text.clone(), true),
        "toml,fragment" => (format!("{SCAFFOLD}{}", block.text), false),
        "toml,ignore" if block.has_comment => return Ok(0),
        "toml,ignore" => return Err("a comment above must say why it is not checked".into()),
        other => return Err(format!("unknown: {other}")),
    };
    let source = Source { name: "block".into(), text };
    // Files that a block names are not there: neither certificates nor secrets are looked at.
    let env = |name: &str| (name != "TERMINATION_GRACE_PERIOD").then(|| "example.org".to_owned());
    let outside = Outside { env: &env, read_secret: &secret, files_at: None };
    let mut problems = parse_with(&source, outside).problems;
    problems.retain(|problem| is_whole || problem.severity == Severity::Error);
    if problems.is_empty() { Ok(1) } else { Err(source.render(&problems, false)) }
}

/// A good one, and another one in each file.
fn secret(path: &Path) -> Result<String, String> {
    let name: String = path.to_string_lossy().bytes().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name}{}", "0".repeat(32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(info: &str, text: &str) -> Block {
        Block { info: info.into(), text: text.into(), line: 1, has_comment: false }
    }

    #[test]
    fn wrong_blocks_are_found() {
        let health = "[route.ready]\nlistener = \"probes\"\npath = \"/x\"\nreply = { body = \"x\" }\n";
        let whole = format!("{SCAFFOLD}{health}");
        for (info, text, is_good) in [
            ("toml", &*whole, true),
            ("toml,fragment", health, true),
            ("toml", health, false),
            ("toml,fragment", "[route.ready]\nlistner = 1\n", false),
            ("toml,ignore", "", false),
            ("toml,other", "", false),
        ] {
            let found = configuration(&block(info, text));
            assert_eq!(found.is_ok(), is_good, "{info}: {text}: {found:?}");
        }
    }
}
