//! What is known of programs apart from their events: names by which they were executed, and those that were not
//! recorded.
//!
//! | block | its one column |
//! | --- | --- |
//! | executed names | for each process that has one: its number, the path by which it was executed |
//! | unrecorded | sentences |
//! | thread names | for each thread that has one: its number, its name |

use super::bytes::{Cursor, Nonsense, put, put_bytes};
use mallow_profile::Process;

/// The column of names by which processes were executed; None where no process has one.
pub fn write_names(processes: &[Process]) -> Option<Vec<Vec<u8>>> {
    let mut column = Vec::new();
    for (number, process) in processes.iter().enumerate().filter(|(_, process)| !process.executed_as.is_empty()) {
        put(&mut column, number as u64);
        put_bytes(&mut column, process.executed_as.as_bytes());
    }
    (!column.is_empty()).then(|| vec![column])
}

/// Sets `executed_as` of the processes that have a name.
pub fn read_names(columns: &mut [Cursor], processes: &mut [Process]) -> Result<(), Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of names of programs has another number of columns")) };
    while !column.is_empty() {
        let number = column.small()? as usize;
        let process = processes.get_mut(number).ok_or(Nonsense("a name of no process"))?;
        process.executed_as = column.string()?;
    }
    Ok(())
}

pub fn write_unrecorded(sentences: &[String]) -> Option<Vec<Vec<u8>>> {
    let mut column = Vec::new();
    sentences.iter().for_each(|sentence| put_bytes(&mut column, sentence.as_bytes()));
    (!column.is_empty()).then(|| vec![column])
}

pub fn read_unrecorded(columns: &mut [Cursor]) -> Result<Vec<String>, Nonsense> {
    let [column] = columns else {
        return Err(Nonsense("a block of unrecorded programs has another number of columns"));
    };
    let mut sentences = Vec::new();
    while !column.is_empty() {
        sentences.push(column.string()?);
    }
    Ok(sentences)
}

/// The column of names of threads; None where no thread has one.
pub fn write_thread_names(names: &[String]) -> Option<Vec<Vec<u8>>> {
    let mut column = Vec::new();
    for (number, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        put(&mut column, number as u64);
        put_bytes(&mut column, name.as_bytes());
    }
    (!column.is_empty()).then(|| vec![column])
}

/// Sets `names` to a name for each of so many threads, empty where a thread has none.
pub fn read_thread_names(columns: &mut [Cursor], threads: usize, names: &mut Vec<String>) -> Result<(), Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of names of threads has another number of columns")) };
    names.resize(threads, String::new());
    while !column.is_empty() {
        let number = column.small()? as usize;
        let name = names.get_mut(number).ok_or(Nonsense("a name of no thread"))?;
        *name = column.string()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursors(columns: &[Vec<u8>]) -> Vec<Cursor> {
        columns.iter().cloned().map(Cursor::new).collect()
    }

    #[test]
    fn names_of_threads_come_back_and_belong_to_a_thread() {
        let all = [String::new(), "worker".to_owned(), "größe".to_owned()];
        let columns = write_thread_names(&all).unwrap();
        let mut names = Vec::new();
        assert!(read_thread_names(&mut cursors(&columns), 3, &mut names).is_ok() && names == all);
        assert!(read_thread_names(&mut cursors(&columns), 2, &mut names).is_err());
        assert!(write_thread_names(&all[..1]).is_none());
    }

    #[test]
    fn names_come_back_and_belong_to_a_process() {
        let named = |name: &str| Process { executed_as: name.to_owned(), ..Process::default() };
        let all = [named(""), named("/bin/cc"), named("")];
        let columns = write_names(&all).expect("a name");
        let mut read = vec![Process::default(); 3];
        assert!(read_names(&mut cursors(&columns), &mut read).is_ok());
        assert_eq!(read, all);
        assert!(read_names(&mut cursors(&columns), &mut read[..1]).is_err());
        assert!(read_names(&mut [], &mut read).is_err());
        assert_eq!(write_names(&all[..1]), None);
    }

    #[test]
    fn sentences_come_back() {
        let all = ["a is statically linked".to_owned(), "b".to_owned()];
        let columns = write_unrecorded(&all).expect("sentences");
        assert_eq!(read_unrecorded(&mut cursors(&columns)).ok().as_deref(), Some(&all[..]));
        assert!(read_unrecorded(&mut []).is_err());
        assert_eq!(write_unrecorded(&[]), None);
    }
}
