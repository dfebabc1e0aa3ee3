//! Removes secrets from the texts of a problem, which may quote values.

use crate::secret::Secret;
use crate::secret_names::credentials;
use toml::de::DeValue;

/// Values that a text must not quote as they are: each one decoded, and escaped as by `Debug`.
pub(crate) struct Unquotable(Vec<Form>);

struct Form {
    text: String,
    /// Whether the value is shown without its credentials, because nothing else in it is secret.
    is_shown: bool,
}

impl Unquotable {
    /// The values as written in the file, each with its secret parts. A value of several lines is
    /// secret as a whole.
    pub(crate) fn new<'a>(values: impl Iterator<Item = (&'a str, Vec<&'a str>)>) -> Self {
        let forms = values.flat_map(|(raw, secrets)| {
            let value = DeValue::parse(raw).ok();
            let text = value.as_ref().and_then(|value| value.get_ref().as_str()).unwrap_or(raw);
            let found = credentials(text);
            let is_found = |secret: &&str| found.iter().any(|span| &text[span.clone()] == *secret);
            let is_shown = !raw.contains('\n') && secrets.iter().all(is_found);
            let debug = format!("{text:?}");
            [text, &debug[1..debug.len() - 1]].map(|text| Form { text: text.to_owned(), is_shown })
        });
        Self(forms.filter(|form| !form.text.is_empty()).collect())
    }

    /// Masks each quotation that is part of one of these values or ends with one, except complete
    /// values that are shown without their credentials. Masks credentials in the remaining text.
    pub(crate) fn clean(&self, text: &str) -> String {
        let (mut clean, mut is_quoted, mut is_escaped) = (String::with_capacity(text.len()), false, false);
        let parts = text.split(|c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        for (at, part) in parts.enumerate() {
            if at > 0 {
                clean.push('"');
            }
            if is_quoted && self.has(part) {
                clean.push_str(Secret::MASK);
            } else {
                push_without_credentials(&mut clean, part);
            }
            is_quoted = !is_quoted;
        }
        clean
    }

    fn has(&self, part: &str) -> bool {
        let has = |Form { text, is_shown }: &Form| match is_shown {
            true => text != part && text.contains(part),
            false => text.contains(part) || part.ends_with(text.as_str()),
        };
        !part.is_empty() && self.0.iter().any(has)
    }
}

fn push_without_credentials(clean: &mut String, part: &str) {
    let mut at = 0;
    for found in credentials(part) {
        clean.push_str(&part[at..found.start]);
        clean.push_str(Secret::MASK);
        at = found.end;
    }
    clean.push_str(&part[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_values_and_credentials_are_replaced() {
        let values = [("\"a\\n'b\"", "\"a\\n'b\""), ("'x y'", "'x y'"), ("\"s://v:q@i/c\"", "v:q")];
        let values = || values.into_iter().map(|(value, secret)| (value, vec![secret]));
        let clean = |text: &str| Unquotable::new(values()).clean(text);
        for (text, expected) in [
            ("\"a\\n'b\" is not x y", "\"***\" is not x y"),
            ("write \"http://x y\"", "write \"***\""),
            ("\"y\" is not \"z\"", "\"***\" is not \"z\""),
            ("\"\" is not a host", "\"\" is not a host"),
            ("\"s://u:\\\"p@h/\" is not", "\"s://***@h/\" is not"),
            ("sent to s://u:p@h without", "sent to s://***@h without"),
            ("add \"?token=p&a=b\"", "add \"?token=***&a=b\""),
            ("a \\ \"", "a \\ \""),
            ("\"s://v:q@i/c\" is not", "\"s://***@i/c\" is not"),
            ("write \"http://s://v:q@i/c\"", "write \"http://***@i/c\""),
            ("\"q@i\" is not \"i/c\"", "\"***\" is not \"***\""),
        ] {
            assert_eq!(clean(text), expected);
        }
    }
}
