//! Command lines, as processes showed them at their end. The blocks that are written while a program runs have the
//! first words alone, as they were then: a program may yet wipe the others, or call itself by another name.
//!
//! | column | holds |
//! | --- | --- |
//! | 0 | nothing, or the command: how many words, the words |
//! | 1 | for each process: its number, how many words, the words |

use super::budget::{Budget, STRING};
use super::bytes::{Cursor, Nonsense, put, put_bytes};
use mallow_profile::{Process, Profile, command_word};

/// A block is full from so many bytes of its column on.
const FULL: usize = 1 << 20;

/// The one word of a process's arguments that tables have.
pub fn tables_word(process: &Process) -> Option<&str> {
    process.arguments.first().map(|first| command_word(first, [&*process.executable]))
}

/// The columns of blocks with all words of the command and of all processes.
pub fn write(profile: &Profile) -> Vec<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    let (mut command, mut column) = (Vec::new(), Vec::new());
    if !profile.command.is_empty() {
        put_words(&mut command, &profile.command);
    }
    for (number, process) in profile.processes.iter().enumerate() {
        put(&mut column, number as u64);
        put_words(&mut column, &process.arguments);
        if column.len() >= FULL {
            blocks.push(vec![std::mem::take(&mut command), std::mem::take(&mut column)]);
        }
    }
    if !command.is_empty() || !column.is_empty() {
        blocks.push(vec![command, column]);
    }
    blocks
}

pub fn read(
    columns: &mut [Cursor],
    processes: &mut [Process],
    command: &mut Vec<String>,
    budget: &mut Budget,
) -> Result<(), Nonsense> {
    let [of_command, of_processes] = columns else {
        return Err(Nonsense("a block of arguments has another number of columns"));
    };
    if !of_command.is_empty() {
        *command = words(of_command, budget)?;
    }
    while !of_processes.is_empty() {
        let number = of_processes.small()? as usize;
        let process = processes.get_mut(number).ok_or(Nonsense("arguments of no process"))?;
        process.arguments = words(of_processes, budget)?;
    }
    match of_command.is_empty() {
        true => Ok(()),
        false => Err(Nonsense("a block of arguments has more than its entries")),
    }
}

fn put_words(column: &mut Vec<u8>, words: &[String]) {
    put(column, words.len() as u64);
    words.iter().for_each(|word| put_bytes(column, word.as_bytes()));
}

fn words(column: &mut Cursor, budget: &mut Budget) -> Result<Vec<String>, Nonsense> {
    let mut words = Vec::new();
    for _ in 0..column.number()? {
        let word = column.string()?;
        budget.take(STRING + word.len() as u64)?;
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(words: &[&str]) -> Process {
        let arguments = words.iter().map(|word| (*word).to_owned()).collect();
        Process { executable: "/bin/a".to_owned(), arguments, ..Process::default() }
    }

    #[test]
    fn command_lines_come_back() {
        let command = ["a b".to_owned(), "ü".to_owned()].to_vec();
        let processes = vec![process(&["a"]), process(&["a", "", "x y"]), process(&[]), process(&["t: a -p"])];
        let profile = Profile { command, processes, ..Profile::default() };
        let blocks = write(&profile);
        assert_eq!(blocks.len(), 1);
        let mut read_ones: Vec<Process> =
            profile.processes.iter().map(|one| process(tables_word(one).as_slice())).collect();
        assert_eq!(read_ones[3].arguments, ["t:"]);
        let (mut command, mut budget) = (vec!["a".to_owned()], Budget::of_file(0));
        let mut cursors: Vec<Cursor> = blocks[0].iter().cloned().map(Cursor::new).collect();
        assert!(read(&mut cursors.clone(), &mut read_ones[..1], &mut command, &mut budget).is_err());
        assert!(read(&mut cursors, &mut read_ones, &mut command, &mut budget).is_ok());
        assert_eq!((read_ones, command), (profile.processes, profile.command));
        assert!(read(&mut [], &mut [], &mut Vec::new(), &mut budget).is_err());
    }

    #[test]
    fn a_process_has_the_name_that_it_had_at_its_end() {
        // One that calls itself otherwise, and one that wipes its command line.
        let processes = vec![process(&["marked"]), process(&[])];
        let profile = Profile { command: vec!["marked".to_owned()], processes, ..Profile::default() };
        let blocks = write(&profile);
        let mut of_tables = vec![process(&["node"]), process(&["a"])];
        let (mut command, mut budget) = (vec!["node".to_owned()], Budget::of_file(0));
        let mut cursors: Vec<Cursor> = blocks[0].iter().cloned().map(Cursor::new).collect();
        assert!(read(&mut cursors, &mut of_tables, &mut command, &mut budget).is_ok());
        assert_eq!((of_tables, command), (profile.processes, profile.command));
    }

    #[test]
    fn many_command_lines_take_several_blocks() {
        let long = "x".repeat(100_000);
        let processes = vec![process(&["a", &long]); 25];
        let blocks = write(&Profile { processes, ..Profile::default() });
        assert!(blocks.len() == 3 && blocks.iter().all(|columns| columns[1].len() < FULL + 200_000));
    }
}
