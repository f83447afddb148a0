//! Roster: what sources say about healthcare providers, 12 columns, no clock and no faults.
//!
//! Every field is drawn from an md5 of a salt, the field's name and a number, so record `seq` needs nothing but `seq`.
//! The bytes are those of the public `roster-ingest-guarantees` generator; the log timestamp, which that one leaves open, is base time + seq ms.
//! Doesn't know: `seed` (the salt is fixed), late or poison records.
//! Keeps: key = npi, value = compact JSON in table order, record i has seq i + 1.
//! Tested: here (golden sha256, distinct keys, partition counts).
use std::io::Write;

use super::dials::{Dials, WorkloadError};
use super::partitioner::{Placement, partition_of};
use super::{Fate, Record, Workload};

const SALT: &str = "roster-ingest-guarantees/v1";
const SOURCES: [&str; 4] = ["payer_feed", "license_board", "site_scrape", "clearinghouse"];
const FIRST_NAMES: [&str; 8] = ["robert", "katherine", "james", "maria", "david", "linda", "michael", "susan"];
const LAST_NAMES: [&str; 8] = ["nguyen", "patel", "okafor", "hernandez", "kowalski", "silva", "andersson", "yamamoto"];
const CREDENTIALS: [&str; 4] = ["MD", "DO", "NP", "PA"];
const CITIES: [&str; 6] = ["austin", "dallas", "houston", "san_diego", "brooklyn", "tampa"];
const STATES: [&str; 6] = ["TX", "CA", "NY", "FL", "IL", "WA"];
const SPECIALTIES: [&str; 6] =
    ["family_medicine", "cardiology", "dermatology", "pediatrics", "orthopedics", "psychiatry"];
const NETWORK_STATUSES: [&str; 3] = ["in_network", "out_of_network", "pending"];

pub struct Roster {
    events: u64,
    providers: u32,
    partitions: u32,
    base_time_ms: i64,
    placement: Placement,
}

impl Roster {
    pub fn new(dials: &Dials) -> Result<Self, WorkloadError> {
        dials.check_partitions()?;
        dials.check_countable()?;
        dials.check_roster()?;
        Ok(Roster {
            events: dials.events,
            providers: dials.providers,
            partitions: dials.partitions,
            base_time_ms: dials.base_time_ms,
            placement: Placement::default(),
        })
    }

    fn provider(&self, seq: u64) -> u64 {
        draw(seq, "provider") % u64::from(self.providers)
    }

    fn write_key(&self, provider: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(npi(provider).as_bytes());
    }
}

/// National provider identifier: ten digits.
fn npi(provider: u64) -> String {
    (1_000_000_000 + draw(provider, "npi") % 900_000_000).to_string()
}

fn draw(number: u64, field: &str) -> u64 {
    let digest = md5::compute(format!("{SALT}:{field}:{number}"));
    u64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

fn pick(number: u64, field: &str, options: &[&'static str]) -> &'static str {
    options[draw(number, field) as usize % options.len()]
}

impl Workload for Roster {
    fn records(&self) -> u64 {
        self.events
    }

    fn partition_of(&self, index: u64) -> u32 {
        partition_of(npi(self.provider(index + 1)).as_bytes(), self.partitions)
    }

    fn index_of(&self, partition: u32, offset: u64) -> Option<u64> {
        let all = (0..self.events).map(|index| self.partition_of(index));
        self.placement.index_of(partition, offset, self.partitions, all)
    }

    fn fate(&self, _index: u64) -> Fate {
        Fate::OnTime
    }

    fn record(&self, index: u64, out: &mut Record) {
        let seq = index + 1;
        let provider = self.provider(seq);
        self.write_key(provider, &mut out.key);
        out.partition = partition_of(&out.key, self.partitions);
        out.timestamp_ms = self.base_time_ms + seq as i64;
        out.value.clear();
        // Writing to a Vec can't fail.
        let _ = write!(
            out.value,
            r#"{{"npi":"{npi}","source":"{source}","first_name":"{first}","last_name":"{last}","credential":"{credential}","city":"{city}","state":"{state}","zip":"{zip}","specialty":"{specialty}","network_status":"{network}","revision":1,"seq":{seq}}}"#,
            npi = npi(provider),
            source = pick(seq, "source", &SOURCES),
            first = pick(provider, "first", &FIRST_NAMES),
            last = pick(provider, "last", &LAST_NAMES),
            credential = pick(provider, "cred", &CREDENTIALS),
            city = pick(provider, "city", &CITIES),
            state = pick(provider, "state", &STATES),
            zip = 70_000 + draw(provider, "zip") % 29_999,
            specialty = pick(provider, "spec", &SPECIALTIES),
            network = pick(seq, "net", &NETWORK_STATUSES),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use sha2::{Digest, Sha256};

    use super::*;

    fn roster(events: u64, providers: u32) -> Roster {
        Roster::new(&Dials { events, providers, ..Dials::default() }).unwrap()
    }

    fn each(roster: &Roster, mut look: impl FnMut(&Record)) {
        let mut record = Record::default();
        for index in 0..roster.records() {
            roster.record(index, &mut record);
            look(&record);
        }
    }

    fn sha256_of_lines(roster: &Roster) -> String {
        let mut sha = Sha256::new();
        each(roster, |record| {
            sha.update(&record.key);
            sha.update(b"|");
            sha.update(&record.value);
            sha.update(b"\n");
        });
        format!("{:x}", sha.finalize())
    }

    #[test]
    fn bytes_are_those_of_the_published_generator() {
        assert_eq!(
            sha256_of_lines(&roster(50, 10)),
            "6521342db1ea47a76e48446ea125ac51be1fb3eb49ce229216904925c6191066"
        );
        assert_eq!(
            sha256_of_lines(&roster(1_000, 200)),
            "c2fae09330cf7109cb64c24626c7e4a1f26c5723f635c4e7a67626838549f8b5"
        );
    }

    #[test]
    fn distinct_providers_are_those_published() {
        for (events, distinct) in [(1_000, 774), (6_000, 1_899), (12_000, 1_998), (60_000, 2_000)] {
            let mut npis = HashSet::new();
            each(&roster(events, 2_000), |record| {
                npis.insert(record.key.clone());
            });
            assert_eq!(npis.len(), distinct, "{events} events");
        }
    }

    #[test]
    fn partitions_fill_as_on_the_published_topics() {
        for (events, expected) in [(6_000, [1552, 1500, 1490, 1458]), (12_000, [3098, 3005, 3009, 2888])] {
            let mut counts = [0; 4];
            each(&roster(events, 2_000), |record| counts[record.partition as usize] += 1);
            assert_eq!(counts, expected);
        }
    }

    #[test]
    fn an_offset_names_the_record_that_is_written_there() {
        let roster = roster(300, 50);
        let mut next_offset = [0; 4];
        for index in 0..300 {
            let partition = roster.partition_of(index);
            let offset = &mut next_offset[partition as usize];
            assert_eq!(roster.index_of(partition, *offset), Some(index));
            *offset += 1;
        }
        assert_eq!(roster.index_of(2, next_offset[2]), None);
    }
}
