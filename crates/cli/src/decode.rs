//! `decode`: paths instead of numbers of contexts, in texts.

use std::fs;
use std::io::{self, Read};

use analysis::encoded::text::words;
use analysis::encoded::{By, Call, Decoder, Frame};
use anyhow::{Result, anyhow};

use crate::commands::print;
use crate::dictionaries;
use crate::exit_status::Ending;
use crate::flags::Decode;
use crate::output::reason;

/// Copies a text with paths instead of words that say contexts.
pub fn decode(flags: &Decode) -> Result<Ending> {
    let decoder = Decoder::new(dictionaries::read(&flags.dictionary)?);
    let bytes = match &flags.text {
        Some(path) => fs::read(path)
            .map_err(|error| anyhow!("cannot read '{}': {}", path.display(), reason(&error)))?,
        None => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            bytes
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let (mut out, mut behind) = (String::new(), 0);
    let mut unknown = Vec::new();
    for place in words(&text) {
        out.push_str(&text[behind..place.start]);
        let word = &text[place.clone()];
        match decoder.path_of_word(word) {
            Ok(path) => out.push_str(&shown(&decoder, &path, flags.lines)),
            Err(why) => {
                out.push_str(word);
                unknown.push(format!("{word}: {why}"));
            }
        }
        behind = place.end;
    }
    out.push_str(&text[behind..]);
    print(out.as_bytes())?;
    for why in unknown.iter().take(LISTED) {
        say!("everypath: {why}");
    }
    if unknown.len() > LISTED {
        say!("everypath: and {} more", unknown.len() - LISTED);
    }
    Ok(Ending::Exit(u8::from(!unknown.is_empty())))
}

/// Most contexts that are not known and listed one by one.
const LISTED: usize = 8;

/// A path as text, without the function that asked: in one line, or a line for each.
fn shown(decoder: &Decoder, path: &[Frame], lines: bool) -> String {
    let files: Vec<_> = decoder.files().collect();
    let mut out = String::new();
    for (number, frame) in path.iter().enumerate() {
        let next = path.get(number + 1).map(|next| next.by);
        if next.is_none() && number > 0 {
            break;
        }
        let file = files[frame.function.file];
        let function = &file.functions[frame.function.function as usize];
        let name = match function.name.as_str() {
            "" => format!("{:#x}", function.entry),
            name => image::demangled(name),
        };
        let line = match next {
            Some(By::Call(call) | By::Other(call)) => line_of(&files, call),
            _ => String::new(),
        };
        let between = match frame.by {
            By::Unknown => "… > ",
            By::Signal if number == 0 => "… > (signal) > ",
            _ if number == 0 => "",
            By::Other(_) => " > … > ",
            By::Signal => " > (signal) > ",
            _ => " > ",
        };
        match lines {
            true => out.push_str(&format!(
                "\n    {}{name}{line}",
                between.trim_start_matches(" > ")
            )),
            false => out.push_str(&format!("{between}{name}{line}")),
        }
    }
    out
}

/// File and line of a call, behind a space.
fn line_of(files: &[&placement::dictionary::File], call: Call) -> String {
    let file = files[call.file];
    let site = file.sites[call.site as usize];
    match (site.source as usize)
        .checked_sub(1)
        .and_then(|source| file.sources.get(source))
    {
        Some(source) => format!(
            " {}:{}",
            source.rsplit('/').next().unwrap_or(source),
            site.line
        ),
        None => String::new(),
    }
}
