//! Nests that are chosen by words: all, marks in sources, names of functions, the hottest ones.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use flow::nests::places::Places;
use flow::nests::{Nest, Nests};
use report::flow::Flow;
use report::loops::Mark;

/// A file, and everything by which its nests are chosen.
pub struct Known<'a> {
    pub flow: &'a Flow<'a>,
    pub nests: &'a Nests,
    pub places: Places<'a>,
    pub marks: Vec<Mark>,
}

/// By file: nests that some words choose, in the order of the file, or by their shares if these are known. The first file is the
/// program; a word has to mean something in one of them.
pub fn of(
    known: &[Known<'_>],
    words: &[String],
    shares: Option<&[Vec<f64>]>,
) -> Result<Vec<Vec<usize>>> {
    let mut chosen: Vec<BTreeSet<usize>> = known.iter().map(|_| BTreeSet::new()).collect();
    for word in words {
        let found = of_word(known, word.trim(), shares)?;
        for (all, more) in chosen.iter_mut().zip(found) {
            all.extend(more);
        }
    }
    let sorted = chosen.into_iter().enumerate().map(|(file, chosen)| {
        let mut chosen: Vec<usize> = chosen.into_iter().collect();
        if let Some(shares) = shares {
            let shares = &shares[file];
            chosen.sort_by(|&one, &other| shares[other].total_cmp(&shares[one]));
        }
        chosen
    });
    Ok(sorted.collect())
}

/// By file: nests that a word chooses.
fn of_word(
    known: &[Known<'_>],
    word: &str,
    shares: Option<&[Vec<f64>]>,
) -> Result<Vec<Vec<usize>>> {
    if let Some(count) = word.strip_prefix("hottest:") {
        return hottest(known, count, shares);
    }
    let found: Vec<Result<Vec<usize>>> = known.iter().map(|own| own.of_word(word)).collect();
    if found.iter().any(Result::is_ok) {
        return Ok(found.into_iter().map(Result::unwrap_or_default).collect());
    }
    // The message is that of the program, which is the first.
    found.into_iter().collect()
}

/// The nests with most executed instructions.
fn hottest(
    known: &[Known<'_>],
    count: &str,
    shares: Option<&[Vec<f64>]>,
) -> Result<Vec<Vec<usize>>> {
    let Ok(number) = count.parse::<usize>() else {
        bail!("--loops hottest:{count}: behind the colon is how many nests");
    };
    let Some(shares) = shares else {
        let file = known.first().map_or("PROGRAM", |own| own.flow.file);
        bail!(
            "--loops hottest:{count} needs counts: `everypath count -o run.evp -- {file}`, then --counts run.evp"
        );
    };
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (file, shares) in shares.iter().enumerate() {
        all.extend((0..shares.len()).map(|nest| (file, nest)));
    }
    let share = |&(file, nest): &(usize, usize)| shares[file][nest];
    all.retain(|one| share(one) > 0.0);
    all.sort_by(|one, other| share(other).total_cmp(&share(one)));
    all.truncate(number);
    let mut found: Vec<Vec<usize>> = known.iter().map(|_| Vec::new()).collect();
    for (file, nest) in all {
        found[file].push(nest);
    }
    Ok(found)
}

impl Known<'_> {
    fn of_word(&self, word: &str) -> Result<Vec<usize>> {
        if word == "all" {
            return Ok((0..self.nests.nests.len()).collect());
        }
        let mark = word.strip_prefix("mark:");
        if word == "marks" || mark.is_some() {
            return self.of_marks(mark);
        }
        self.of_function(word)
    }

    /// Nests that marks mean: all marks, or those of a name.
    fn of_marks(&self, name: Option<&str>) -> Result<Vec<usize>> {
        let file = self.flow.file;
        let wanted = |mark: &&Mark| name.is_none_or(|name| mark.name == name);
        let marks: Vec<&Mark> = self.marks.iter().filter(wanted).collect();
        if marks.is_empty() && self.places.is_empty() {
            bail!(
                "'{file}' has no line tables, so marks in sources mean nothing in it: compile it with -g"
            );
        }
        if marks.is_empty() {
            let what = name.map_or("a mark".into(), |name| format!("the mark {name}"));
            bail!(
                "no source of '{file}' that is here has {what}: `// everypath: loop NAME` before a loop"
            );
        }
        let found = marks.iter().filter_map(|mark| mark.found.as_ref().ok());
        let nests = found.flatten().map(|&(nest, _)| nest);
        Ok(nests.collect())
    }

    /// Nests of a function, or one of them.
    fn of_function(&self, word: &str) -> Result<Vec<usize>> {
        let file = self.flow.file;
        let (name, number) = match word.rsplit_once(':') {
            Some((name, number)) if number.parse::<u32>().is_ok() => (name, number.parse().ok()),
            _ => (word, None),
        };
        let functions = self.flow.find(name);
        if functions.is_empty() {
            bail!("'{file}' has no function '{name}'; `everypath flow {file}` lists them");
        }
        let is_of_it = |nest: &Nest| {
            let own = &self.flow.program.functions[nest.function];
            functions.iter().any(|function| function.entry == own.entry)
        };
        let is_it = |nest: &Nest| {
            is_of_it(nest) && number.is_none_or(|number: u32| nest.loops[0].number == number)
        };
        let nests = (0..).zip(&self.nests.nests);
        let found: Vec<usize> = nests
            .filter(|(_, nest)| is_it(nest))
            .map(|(at, _)| at)
            .collect();
        if found.is_empty() {
            let all = self
                .nests
                .nests
                .iter()
                .filter(|nest| is_of_it(nest))
                .count();
            bail!(
                "'{name}' has {}, and no {word}",
                report::counted(all as u64, "nest")
            );
        }
        Ok(found)
    }
}
