//! Code blocks of the book: configurations are valid, and doorbell accepts the command lines.

use crate::page::Block;
use doorbell_proxy::cli::command_line;
use doorbell_proxy_config::{Outside, Severity, Source, parse_with};
use std::path::Path;

/// Languages that a block may declare. Commands must be in `console` or `sh` blocks, which are
/// checked.
pub(crate) const LANGUAGES: [&str; 9] =
    ["console", "ini", "json", "nginx", "sh", "sql", "text", "toml", "yaml"];

/// Minimal configuration that precedes a fragment.
const SCAFFOLD: &str = "version = 1\n[listener.probes]\nbind = \"127.0.0.1:18080\"\n";

/// Parses a configuration block. `toml` is a complete configuration and may have neither errors nor
/// warnings. `toml,fragment` is part of a configuration and may have no errors. `toml,ignore` is
/// skipped and needs a comment above it with the reason.
pub(crate) fn configuration(block: &Block) -> Result<usize, String> {
    let (text, is_whole) = match &*block.info {
        "toml" => (block.text.clone(), true),
        "toml,fragment" => (format!("{SCAFFOLD}{}", block.text), false),
        "toml,ignore" if block.has_comment => return Ok(0),
        "toml,ignore" => return Err("a comment above must say why it is not checked".into()),
        other => return Err(format!("unknown: {other}")),
    };
    let source = Source { name: "block".into(), text };
    // The certificates and secrets that a block names do not exist, so no file is read.
    let env = |name: &str| (name != "TERMINATION_GRACE_PERIOD").then(|| "example.org".to_owned());
    let outside = Outside { read_secret: &secret, files_at: None, ..Outside::new(&env) };
    let mut problems = parse_with(&source, outside).problems;
    problems.retain(|problem| is_whole || problem.severity == Severity::Error);
    if problems.is_empty() { Ok(1) } else { Err(source.render(&problems, false)) }
}

/// Returns a valid secret that differs for each file.
fn secret(path: &Path) -> Result<String, String> {
    let name: String = path.to_string_lossy().bytes().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name}{}", "0".repeat(32)))
}

/// Parses every `doorbell` command: each line of `sh`, and the lines of `console` that start with
/// `$ `.
pub(crate) fn commands(block: &Block) -> Result<usize, String> {
    let mut count = 0;
    let text = block.text.replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| match block.language() {
        "sh" => Some(line),
        _ => line.strip_prefix("$ "),
    });
    for line in lines {
        let words = words(line)?;
        let Some(words) = ours(&words) else { continue };
        count += 1;
        // clap reports the help text of `help COMMAND` as an error.
        let is_help = words.get(1).is_some_and(|word| word == "help");
        let parsed = command_line().try_get_matches_from(words);
        if let Some(error) = parsed.err().filter(|error| error.use_stderr() && !is_help) {
            return Err(format!("{line}\n{error}"));
        }
    }
    Ok(count)
}

/// Returns the words from `doorbell` on. It may be the first word, follow variables, or follow `--`
/// as in `kubectl exec .. -- /doorbell status`.
fn ours(words: &[String]) -> Option<&[String]> {
    let is_prefix = |word: &String| word == "sudo" || word.contains('=') && !word.starts_with('-');
    let first = words.iter().position(|word| !is_prefix(word))?;
    let is_ours = |at: &usize| words.get(*at).is_some_and(|word| word == "doorbell" || word == "/doorbell");
    let behind = words.iter().position(|word| word == "--").map(|at| at + 1);
    let at = [Some(first), behind].into_iter().flatten().find(is_ours)?;
    Some(&words[at..])
}

/// Splits the first command of a line into words, with the quoting rules of a shell.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (letter, Some(mark)) if letter == mark => quote = None,
            (letter, Some(_)) => word.get_or_insert_default().push(letter),
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('\\', None) => word.get_or_insert_default().extend(letters.next()),
            ('|' | ';' | '&' | '>' | '<', None) => break,
            ('#', None) if word.is_none() => break,
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, None) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() { Err(format!("unterminated quote: {line}")) } else { Ok(words) }
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

    #[test]
    fn wrong_commands_are_found() {
        for (text, found) in [
            ("$ doorbell status\nready\n$ doorbell drain --reason 'a b' | cat\n", Ok(2)),
            ("$ curl localhost\n", Ok(0)),
            ("$ kubectl exec pod -- /doorbell status\n", Ok(1)),
            ("$ kubectl exec pod -- /doorbell statsu\n", Err(())),
            ("$ A=b doorbell --help\n$ doorbell probe \\\n    http://h/\n", Ok(2)),
            ("$ doorbell statsu\n", Err(())),
            ("$ doorbell status --nonsense\n", Err(())),
            ("$ doorbell drain 'a\n", Err(())),
        ] {
            assert_eq!(commands(&block("console", text)).map_err(drop), found, "{text}");
        }
        assert_eq!(commands(&block("sh", "doorbell statsu\n")).map_err(drop), Err(()));
        assert_eq!(words("a  \"b c\"\\ d 'e|f' | g").unwrap(), ["a", "b c d", "e|f"]);
    }
}
