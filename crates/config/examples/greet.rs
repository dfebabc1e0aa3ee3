//! A program with a configuration file: `cargo run -p doorbell-config --example greet -- FILE`. In
//! place of `FILE`, `schema` prints the JSON Schema and `defaults` the default values.
#![expect(clippy::print_stdout, reason = "the example prints its results")]

use doorbell_config::{
    ExternalValues, Overrides, Program, Section, Source, Table, Words, format_duration, secret,
};
use std::time::Duration;

/// The greeting.
#[derive(Clone, Debug, Table)]
#[table(check = check)]
struct File {
    /// Names to greet; one or a list.
    #[key(required = "\"world\"", filled)]
    names: Vec<String>,
    /// Tone of the greeting.
    #[key(default = "polite")]
    tone: Tone,
    /// Pause between two greetings, or off.
    #[key(default = "off", none = "off", range = "1ms..=1m")]
    pause: Option<Duration>,
    /// Maximum number of greetings.
    #[key(default_with = names_len)]
    limit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Words)]
enum Tone {
    Hearty,
    Polite,
}

fn names_len(file: &File) -> u32 {
    u32::try_from(file.names.len()).unwrap_or(u32::MAX)
}

fn check(file: &File, at: &Section<'_>) {
    if let (Some(place), true) = (at.right_place("pause"), file.names.len() == 1) {
        let problem = doorbell_config::Problem::warning("no-effect", place, "one greeting needs no pause");
        at.problem(problem.help("remove it, or add a name"));
    }
}

fn main() -> std::io::Result<()> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "defaults".into());
    match argument.as_str() {
        "schema" => println!("{:#}", File::schema()),
        "defaults" => println!("{:#}", File::default().to_json(true)),
        name => greet(name)?,
    }
    Ok(())
}

fn greet(name: &str) -> std::io::Result<()> {
    let program = Program { schema: File::schema, variables: "GREET__", ..Program::NONE };
    let overrides = Overrides::of(program.variables, std::env::vars());
    let outside = ExternalValues {
        env: &|name| std::env::var(name).ok(),
        read_secret: &secret::read_file,
        overrides: &overrides,
    };
    let source = Source { name: name.to_owned(), text: std::fs::read_to_string(name)? };
    let outcome = doorbell_config::load::<File>(program, &source, outside);
    print!("{}", source.render(&outcome.problems, false));
    if let (true, Some(file)) = (outcome.is_valid(), outcome.value) {
        let names = file.names.iter().take(file.limit.try_into().unwrap_or(usize::MAX));
        for name in names {
            let greeting = match file.tone {
                Tone::Hearty => "Hey",
                Tone::Polite => "Good morning",
            };
            println!("{greeting}, {name}");
            if let Some(pause) = file.pause {
                println!("(a pause of {})", format_duration(pause));
            }
        }
    }
    Ok(())
}
