//! The picture in the README: runs the shown commands and compares their output.
//!
//! Ports, times and the process ID have fixed values in the picture. `DOORBELL_BLESS=1` redraws it.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use doorbell_testkit::peers::wait_until;
use doorbell_testkit::skip;

use crate::support::{Doorbell, LIMIT, Scratch, binary, free_addr, program};

const PICTURE: &str = "../../deploy/quickstart.svg";

/// The commands as shown. They run with another folder and port.
const COMMANDS: [&str; 6] = [
    "doorbell serve -c /etc/doorbell/doorbell.toml &",
    "curl -s 'http://127.0.0.1:8080/readyz?verbose'",
    "doorbell status",
    "doorbell drain --reason 'new kernel'",
    "curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:8080/readyz",
    "doorbell undrain",
];

const FOLDER: &str = "/etc/doorbell";
const AGE: &str = "4s";
const PID: &str = "4711";

/// CSS class of a character, or an empty string for the default style.
type Look = &'static str;

type Line = Vec<(Look, char)>;

#[test]
fn the_picture_shows_the_output_of_the_commands() {
    let [Some(curl), Some(shell)] = ["curl", "sh"].map(program) else { return };
    if !skip::io_uring() {
        return;
    }
    let drawn = draw(&session(&curl, &shell));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PICTURE);
    if std::env::var_os("DOORBELL_BLESS").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert_eq!(
        kept, drawn,
        "deploy/quickstart.svg differs from the output of the commands: DOORBELL_BLESS=1 redraws it"
    );
}

/// Output of the commands, with a healthy application, a missing database, and an operator.
fn session(curl: &Path, shell: &Path) -> Vec<Line> {
    let (app, db) = (application(), free_addr());
    let scratch = Scratch::new();
    let folder = scratch.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let config = format!(
        "version = 1\n[runtime]\nworkers = 2\n[listener.probes]\nbind = \"127.0.0.1:0\"\n\
         [check.app]\ntype = \"http\"\nurl = \"http://{app}/healthz\"\n[check.db]\ntype = \"tcp\"\naddress = \"{db}\"\n\
         [health.readyz]\nrequire = [\"app\"]\ndegrading = [\"db\"]\n\
         [route.readyz]\npath = \"/readyz\"\nhealth = \"readyz\"\ndetails = \"always\"\n",
    );
    let file = scratch.write("doorbell.toml", &config);
    std::os::unix::fs::symlink(binary(), scratch.path("doorbell")).unwrap();
    let mut serve = Command::new(binary());
    serve.args(["serve", "-c", &file, "--driver", "io_uring"]).env("RUNTIME_DIRECTORY", &folder);
    let doorbell = Doorbell::try_start_command(&mut serve).unwrap_or_else(|log| panic!("{log}"));
    let port = format!(":{}", doorbell.addr.port());
    let path = format!("{folder}:{}:/usr/bin:/bin", curl.parent().unwrap().display());
    let run = |command: &str| {
        let command = command.replace(":8080", &port).replace(FOLDER, &folder);
        let mut shell = Command::new(shell);
        let shell =
            shell.args(["-c", &command]).env_clear().env("PATH", &path).env("RUNTIME_DIRECTORY", &folder);
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        let said = said.replace(&port, ":8080").replace(&folder, FOLDER);
        said.replace(&format!(":{}", db.port()), ":5432").replace(&format!(":{}", app.port()), ":3000")
    };
    let wait_for_status = |holds: &dyn Fn(&str) -> bool| {
        let came = wait_until(LIMIT, || holds(&run("doorbell status")));
        assert!(came.is_some(), "{}\n{}", run("doorbell status"), doorbell.process.log());
    };
    // Only the shown commands may connect to the listener, because it counts connections.
    wait_for_status(&|status| status.contains("1 down, 1 up"));
    let mut lines = Vec::new();
    for command in COMMANDS {
        lines.push(format!("$ {command}").chars().map(|c| ("c", c)).collect());
        if command == "doorbell status" {
            // All ages must be in seconds, because ages below a second look different. Earlier
            // connections must have ended.
            wait_for_status(&|status| {
                !status.contains("ms") && status.contains(" 0 connections open, 1 accepted, 1 request\n")
            });
        }
        if !command.ends_with('&') {
            let colored = if command.starts_with("doorbell") { " --color always" } else { "" };
            let said = run(&format!("{command}{colored}"));
            lines.extend(said.trim_end().lines().map(|line| steady(looks(line))));
        }
    }
    lines
}

/// A server that replies 200 until the test ends.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // The client may have disconnected.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    addr
}

/// The characters of a line, with their styles from terminal escape codes.
fn looks(line: &str) -> Line {
    let mut look = "";
    let mut parts = line.split("\x1b[");
    let mut line: Line = parts.next().unwrap().chars().map(|c| (look, c)).collect();
    for part in parts {
        let (code, text) = part.split_once('m').unwrap();
        look = match code {
            "0" => "",
            "1" => "h",
            "1;31" => "b",
            "2" => "q",
            "32" => "g",
            "33" => "w",
            other => panic!("no class for {other}"),
        };
        line.extend(text.chars().map(|c| (look, c)));
    }
    line
}

/// Replaces ages and the process ID with fixed values, and keeps columns aligned.
fn steady(line: Line) -> Line {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut out = Line::new();
    let mut rest = &line[..];
    while let Some((look, first)) = rest.first().copied() {
        let len = rest.iter().take_while(|(_, c)| is_word(*c)).count();
        let word: String = rest[..len].iter().map(|(_, c)| c).collect();
        let before: String = out.iter().map(|(_, c)| c).collect();
        let is_age = word.strip_suffix(['s', 'm']).is_some_and(|number| number.parse::<u32>().is_ok());
        let new = match () {
            () if before.ends_with("pid ") && word.parse::<u32>().is_ok() => PID,
            () if is_age && before.ends_with(' ') => AGE,
            () => {
                let len = len.max(1);
                out.extend(&rest[..len]);
                rest = &rest[len..];
                continue;
            }
        };
        debug_assert!(is_word(first));
        out.extend(new.chars().map(|c| (look, c)));
        rest = &rest[len..];
        let spaces = rest.iter().take_while(|(_, c)| *c == ' ').count();
        if spaces >= 2 {
            let width = (len + spaces).saturating_sub(new.len());
            out.extend(std::iter::repeat_n(("", ' '), width));
            rest = &rest[spaces..];
        }
    }
    out
}

const STYLE: &str = "\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#24292f;white-space:pre}
rect{fill:#f6f8fa;stroke:#d0d7de}
.c{fill:#0550ae}.g{fill:#116329}.w{fill:#7d4e00}.b{fill:#a40e26;font-weight:bold}.q{fill:#57606a}.h{font-weight:bold}
@media (prefers-color-scheme:dark){
text{fill:#d7dde4}
rect{fill:#14181d;stroke:#30363d}
.c{fill:#8bd5ff}.g{fill:#7ee2a8}.w{fill:#ffd479}.b{fill:#ff9b9b}.q{fill:#9aa4b0}
}
";

/// Draws the picture, with colors for light and dark mode and a text alternative.
fn draw(lines: &[Line]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let (width, height) = (columns * 8 + 36, lines.len() * 20 + 54);
    let commands: Vec<String> =
        COMMANDS.iter().map(|command| escaped(command.trim_end_matches(" &"))).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">A terminal: doorbell serves, is probed, shows its state and drains</title>\n\
         <desc id=\"desc\">These commands are run, each with what it prints: {}. The database is down and only degrades readiness, so the probe is \
         answered with 200; while doorbell drains it is answered with 503.</desc>\n\
         <style>{STYLE}</style>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n\
         <circle cx=\"20\" cy=\"20\" r=\"6\" fill=\"#ff6159\"/><circle cx=\"40\" cy=\"20\" r=\"6\" fill=\"#ffbd2e\"/><circle cx=\"60\" cy=\"20\" r=\"6\" fill=\"#28c941\"/>\n",
        commands.join("; "),
        width - 1,
        height - 1,
    );
    for (number, line) in lines.iter().enumerate() {
        let y = number * 20 + 54;
        let _infallible = write!(svg, "<text x=\"18\" y=\"{y}\" xml:space=\"preserve\">");
        for piece in line.chunk_by(|(one, _), (next, _)| one == next) {
            let text = escaped(&piece.iter().map(|(_, c)| c).collect::<String>());
            let _infallible = match piece[0].0 {
                "" => write!(svg, "{text}"),
                look => write!(svg, "<tspan class=\"{look}\">{text}</tspan>"),
            };
        }
        svg.push_str("</text>\n");
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn variable_parts_are_replaced() {
    let shown = |line: &str| steady(looks(line)).into_iter().map(|(_, c)| c).collect::<String>();
    for (line, expected) in [
        (
            "doorbell 0.1.0  \x1b[32mready\x1b[0m for 13s, up 1m, pid 9",
            "doorbell 0.1.0  ready for 4s, up 4s, pid 4711",
        ),
        ("readyz    degraded  9s   200", "readyz    degraded  4s   200"),
        ("readyz    degraded  10s  200", "readyz    degraded  4s   200"),
        ("2 threads, 3 requests", "2 threads, 3 requests"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
    ] {
        assert_eq!(shown(line), expected);
    }
    assert_eq!(looks("a\x1b[33mb\x1b[0mc"), [("", 'a'), ("w", 'b'), ("", 'c')]);
}
