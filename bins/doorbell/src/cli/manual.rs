//! doorbell.toml(5): the manual page of configuration files, generated from the schema.

use doorbell_proxy_config::schema;
use serde_json::Value;
use std::fmt::Write as _;

/// Renders the page as roff.
pub(super) fn file_page() -> String {
    let schema = schema();
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH doorbell.toml 5 \"\" \"doorbell {version}\"\n.nh\n.ad l\n\
         .SH NAME\ndoorbell.toml \\- configuration of doorbell\n.SH DESCRIPTION\n{}\n.PP\n{}\n",
        escaped(schema["description"].as_str().unwrap_or_default()),
        escaped(
            "The file is TOML and begins with `version = 1`. In [listener.NAME], NAME stands for a name that you choose. The environment \
            variable DOORBELL__SECTION__KEY overrides a key with a single value. `doorbell validate` reports the problems of a file, \
            `doorbell config dump --with-defaults` prints its effective values."
        ),
    );
    for (key, form) in properties(&schema).filter(|(_, form)| form["properties"].is_object()) {
        let _infallible = write!(page, ".SH \"[{key}]\"\n{}\n", description(form));
        entries(&mut page, "", form);
    }
    for (key, form) in properties(&schema).filter(|(_, form)| form["additionalProperties"].is_object()) {
        let one = &form["additionalProperties"];
        let _infallible = write!(page, ".SH \"[{key}.NAME]\"\n{} {}\n", description(form), description(one));
        entries(&mut page, "", one);
    }
    page.push_str(".SH SEE ALSO\n\\fBdoorbell\\fR(1)\n");
    page
}

/// The keys of a table.
pub fn properties(form: &Value) -> impl Iterator<Item = (&String, &Value)> {
    form["properties"].as_object().into_iter().flatten()
}

/// Renders every key of a table, followed by the keys of its subtables.
fn entries(page: &mut String, before: &str, form: &Value) {
    for (key, form) in properties(form) {
        let name = format!("{before}{key}");
        let _infallible = write!(page, ".TP\n\\fB{}\\fR\n{}", escaped(&name), description(form));
        for fact in [words(form), range(form), default(form)].into_iter().flatten() {
            let _infallible = write!(page, " {}", escaped(&fact));
        }
        page.push('\n');
        let forms = form["anyOf"].as_array().into_iter().flatten();
        for table in [form, &form["items"]].into_iter().chain(forms) {
            entries(page, &format!("{name}."), table);
        }
    }
}

fn description(form: &Value) -> String {
    escaped(form["description"].as_str().unwrap_or_default())
}

/// The allowed words of a key.
fn words(form: &Value) -> Option<String> {
    let forms = form["anyOf"].as_array().into_iter().flatten();
    let inner = forms.clone().flat_map(|form| form["anyOf"].as_array().into_iter().flatten());
    let words =
        [form].into_iter().chain(forms.clone()).chain(inner).find_map(|form| form["enum"].as_array())?;
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let (last, others) = words.split_last()?;
    Some(if others.is_empty() {
        format!("May be {last}.")
    } else {
        format!("One of {} or {last}.", others.join(", "))
    })
}

fn range(form: &Value) -> Option<String> {
    let (least, most) = (form["minimum"].as_u64()?, form["maximum"].as_u64()?);
    Some(format!("Range: {least} to {most}."))
}

fn default(form: &Value) -> Option<String> {
    default_shown(form).map(|shown| format!("Default: {shown}."))
}

/// Formats the default as in a configuration file, but without quotes around a text.
#[must_use]
pub fn default_shown(form: &Value) -> Option<String> {
    Some(match form.get("default")? {
        Value::Array(list) => {
            format!("[{}]", list.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    })
}

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_table_and_what_its_keys_are() {
        let page = file_page();
        for part in [
            ".SH \"[lifecycle]\"\n",
            ".SH \"[listener.NAME]\"\n",
            ".TP\n\\fBdrain_delay\\fR\nTime after SIGTERM in which endpoints report the drain and all requests are still served. Default: 5s.\n",
            ".TP\n\\fBtcp.backlog\\fR\n",
            "One of auto, epoll or io_uring. Default: auto.",
            "Range: 1 to 65535.",
            "Default: [\"SIGHUP\", \"file\"].",
            ".TP\n\\fBwindow.cron\\fR\n",
            ".TP\n\\fBflap.hold\\fR\n",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            let is_known = [".TP", ".SH ", ".TH ", ".PP", ".ie ", ".el ", ".nh", ".ad "]
                .iter()
                .any(|known| line.starts_with(known));
            assert!(is_known, "{line}");
        }
    }
}
