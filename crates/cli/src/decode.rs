//! `decode`: paths instead of numbers of contexts, in texts.

use std::fs;
use std::io::{self, Read};

use analysis::encoded::text::words;
use analysis::encoded::{By, Call, Decoder, Frame, Function};
use anyhow::{Result, anyhow};

use crate::commands::print;
use crate::counter_header::{self, Header};
use crate::dictionaries;
use crate::exit_status::Ending;
use crate::flags::Decode;
use crate::logged::{self, Log};
use crate::output::reason;

/// Copies a text with paths instead of words that say contexts.
pub fn decode(flags: &Decode) -> Result<Ending> {
    let mut decoder = Decoder::new(dictionaries::read(&flags.dictionary)?);
    if let Some(path) = flags
        .text
        .as_deref()
        .filter(|path| counter_header::is_one(path))
    {
        let mut log = Log::default();
        log.add(&mut decoder, path)?;
        for what in &log.lost {
            say!("everypath: {what}");
        }
        print(logged::lines(&log, false).as_bytes())?;
        return Ok(Ending::Exit(u8::from(!log.lost.is_empty())));
    }
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
    match path {
        [callers @ .., _] if !callers.is_empty() => text(decoder, path, callers.len(), lines),
        _ => text(decoder, path, path.len(), lines),
    }
}

/// A path in one line, from the program's own first function on.
pub fn whole(decoder: &Decoder, path: &[Frame]) -> String {
    let is_start = |frame: &&Frame| name(decoder, frame.function).starts_with("__libc_start_");
    let path = match path.iter().take_while(is_start).count() {
        all if all == path.len() => path,
        start => &path[start..],
    };
    text(decoder, path, path.len(), false)
}

/// The name of a function, or its address.
pub fn name(decoder: &Decoder, function: Function) -> String {
    let file = decoder.files().nth(function.file);
    let function = file.and_then(|file| file.functions.get(function.function as usize));
    match function {
        Some(function) if function.name.is_empty() => format!("{:#x}", function.entry),
        Some(function) => image::demangled(&function.name),
        None => String::new(),
    }
}

/// Numbers of a frame's kind and call, by which paths are told apart.
pub fn key(by: By) -> (u64, u64) {
    let call = |call: Call| (call.file as u64) << 32 | u64::from(call.site);
    match by {
        By::Outside => (0, 0),
        By::Call(own) => (1, call(own)),
        By::Other(own) => (2, call(own)),
        By::Signal => (3, 0),
        By::Unknown => (4, 0),
    }
}

/// Tells a decoder where a process had its files; gives them by their numbers, with differences of addresses.
pub fn place(decoder: &mut Decoder, header: &Header) -> Vec<(usize, u64)> {
    let mut biases = Vec::new();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let files: Vec<String> = decoder.files().map(|file| file.name.clone()).collect();
    for part in &header.parts {
        let own = part.path.as_deref().map(name);
        let file = match &own {
            None => Some(0).filter(|_| files.len() == 1),
            Some(own) => files.iter().position(|file| file == own),
        };
        if let Some(file) = file {
            decoder.set_bias(file, part.bias);
            biases.push((file, part.bias));
        }
    }
    biases
}

/// The first functions of a path as text.
fn text(decoder: &Decoder, path: &[Frame], count: usize, lines: bool) -> String {
    let files: Vec<_> = decoder.files().collect();
    let mut out = String::new();
    for (number, frame) in path.iter().take(count).enumerate() {
        let next = path.get(number + 1).map(|next| next.by);
        let name = name(decoder, frame.function);
        let line = match next {
            Some(By::Call(call) | By::Other(call)) => line_of(&files, call),
            _ => String::new(),
        };
        let between = match frame.by {
            By::Unknown if number > 0 => " > … > ",
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
