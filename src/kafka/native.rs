//! What librdkafka can and the rdkafka crate has no safe call for: records in batches from a partition's own queue, and topic ids.
//!
//! The only `unsafe` of the Kafka source. Doesn't know: positions, ends, errors' meaning.
//! Keeps: a message lives until its [`Messages`] is dropped, a queue no longer than its consumer; no pointer leaves this file.
//! Tested: kafka/tests.rs, tests/kafka_source.rs.
//!
//! Why partition queues: the shared consumer queue hands out partitions as their fetches arrive, so one can run far ahead of another in event
//! time, and pausing one makes librdkafka throw away what it has fetched of it. A queue of one's own is paused by not reading it.
use std::ffi::{CStr, CString, c_char};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use floodmark_pipeline::time::SAYABLE_US;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka_sys as sys;

use super::watch::Watch;

/// A header as [`RawRecord`](crate::source::RawRecord) has it.
pub type Header<'a> = (&'a str, Option<&'a [u8]>);

/// The fetch queue of one partition, cut off from the queue that all partitions of a consumer share.
pub struct PartitionQueue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    /// Must outlive `queue`.
    _consumer: Arc<BaseConsumer<Watch>>,
}

// SAFETY: librdkafka's queues are locked inside and may be used from any thread.
unsafe impl Send for PartitionQueue {}

impl PartitionQueue {
    /// To be opened before the partition is assigned: what was fetched before is on the shared queue. `None`: `topic` is no topic's name.
    pub fn open(consumer: &Arc<BaseConsumer<Watch>>, topic: &str, partition: i32) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client is alive as long as `consumer`; the name is only read during the call.
        let queue =
            unsafe { sys::rd_kafka_queue_get_partition(consumer.client().native_ptr(), topic.as_ptr(), partition) };
        let queue = NonNull::new(queue)?;
        // SAFETY: the queue was just made; a null destination means "to nobody", which librdkafka keeps through an assignment.
        unsafe { sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut()) };
        Some(Self { queue, _consumer: Arc::clone(consumer) })
    }

    /// Takes at most `max` messages of those fetched already. Doesn't wait.
    pub fn take<'a>(&self, max: usize, buffer: &'a mut MessageBuffer) -> Messages<'a> {
        buffer.0.resize(max.max(buffer.0.len()), ptr::null_mut());
        // SAFETY: the queue lives; the buffer has room for `max` pointers, and the count says how many were written.
        let count = unsafe { sys::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, buffer.0.as_mut_ptr(), max) };
        Messages(&buffer.0[..usize::try_from(count).unwrap_or(0)])
    }
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: made in `open`, destroyed once, before the consumer.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// Room for the pointers of one [`PartitionQueue::take`], kept from call to call.
#[derive(Default)]
pub struct MessageBuffer(Vec<*mut sys::rd_kafka_message_t>);

// SAFETY: between two calls of `take` the pointers in it are dead and never read.
unsafe impl Send for MessageBuffer {}

/// Messages taken from a queue; dropping them gives their memory back to librdkafka.
pub struct Messages<'a>(&'a [*mut sys::rd_kafka_message_t]);

impl Messages<'_> {
    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        // SAFETY: librdkafka wrote these pointers; each points to a message of ours until `drop`, which `self` outlives by the borrow.
        self.0.iter().map(|&message| Message(unsafe { &*message }))
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        for &message in self.0 {
            // SAFETY: each message is ours and is destroyed once; every borrow from it has ended.
            unsafe { sys::rd_kafka_message_destroy(message) };
        }
    }
}

/// A record, or an event of its partition (`error`).
#[derive(Clone, Copy)]
pub struct Message<'a>(&'a sys::rd_kafka_message_t);

impl<'a> Message<'a> {
    pub fn offset(self) -> i64 {
        self.0.offset
    }

    /// The event this stands for, if it is no record, with what librdkafka says of it.
    pub fn error(self) -> Option<(RDKafkaErrorCode, String)> {
        let code = self.0.err;
        if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        let text = self.payload().map(String::from_utf8_lossy).unwrap_or_default();
        Some((code.into(), text.into_owned()))
    }

    pub fn payload(self) -> Option<&'a [u8]> {
        // SAFETY: payload and length are of this message, which lives for 'a.
        unsafe { bytes(self.0.payload.cast(), self.0.len) }
    }

    pub fn key(self) -> Option<&'a [u8]> {
        // SAFETY: key and length are of this message, which lives for 'a.
        unsafe { bytes(self.0.key.cast(), self.0.key_len) }
    }

    /// `None` also for one that no calendar has: whoever writes a record may say anything.
    pub fn timestamp_ms(self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message lives; `kind` is written during the call.
        let timestamp = unsafe { sys::rd_kafka_message_timestamp(self.0, &mut kind) };
        let is_told = kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (is_told && SAYABLE_US.contains(&timestamp.saturating_mul(1_000))).then_some(timestamp)
    }

    /// Appends the headers, in their order. One whose name isn't UTF-8 is left out: no field can ask for it.
    pub fn headers(self, into: &mut Vec<Header<'a>>) {
        let mut headers = ptr::null_mut();
        // SAFETY: the message lives; librdkafka parses its headers and keeps them in the message.
        if unsafe { sys::rd_kafka_message_headers(self.0, &mut headers) } != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            return;
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            // SAFETY: `headers` belongs to the message; an index past the last is answered with an error.
            let found = unsafe { sys::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut size) };
            if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            // SAFETY: a header's name is a C string and its value `size` bytes, both in the message, which lives for 'a.
            let (name, value) = unsafe { (CStr::from_ptr(name), bytes(value.cast(), size)) };
            if let Ok(name) = name.to_str() {
                into.push((name, value));
            }
        }
    }
}

/// # Safety
/// `at` is null or points to `length` bytes that live and don't change for 'a.
unsafe fn bytes<'a>(at: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: by this function's own contract.
    (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, length) })
}

/// A topic as the brokers describe it.
#[derive(Debug)]
pub struct TopicDescription {
    pub name: String,
    /// As Kafka's own tools print it; empty from brokers before 2.8, which have none.
    pub id: String,
    pub partitions: Vec<i32>,
    pub error: Option<RDKafkaErrorCode>,
}

/// Asks the brokers for topics by name; blocks for at most about `timeout`.
pub fn describe_topics(
    consumer: &BaseConsumer<Watch>,
    names: &[CString],
    timeout: Duration,
) -> Result<Vec<TopicDescription>, RDKafkaErrorCode> {
    let client = consumer.client().native_ptr();
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: the client lives through this function; each object is owned by its guard, which destroys it with the function made for it.
    let (options, queue, topics) = unsafe {
        let kind = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        (
            Owned(sys::rd_kafka_AdminOptions_new(client, kind), sys::rd_kafka_AdminOptions_destroy),
            Owned(sys::rd_kafka_queue_new(client), sys::rd_kafka_queue_destroy),
            Owned(
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()),
                sys::rd_kafka_TopicCollection_destroy,
            ),
        )
    };
    // SAFETY: all arguments live; no text of an error is asked for. The answer arrives on our queue once, at the latest after the timeout.
    let event = unsafe {
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, timeout_ms, ptr::null_mut(), 0);
        sys::rd_kafka_DescribeTopics(client, topics.0, options.0, queue.0);
        Owned(sys::rd_kafka_queue_poll(queue.0, timeout_ms.saturating_add(1000)), sys::rd_kafka_event_destroy)
    };
    if event.0.is_null() {
        return Err(RDKafkaErrorCode::OperationTimedOut);
    }
    // SAFETY: the event is no null pointer and lives until the end of this function; all that is read below belongs to it and is copied.
    unsafe {
        let error = sys::rd_kafka_event_error(event.0);
        if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(error.into());
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event.0);
        if result.is_null() {
            return Err(RDKafkaErrorCode::OperationTimedOut);
        }
        let mut count = 0;
        let described = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        Ok((0..count).map(|topic| topic_description(*described.add(topic))).collect())
    }
}

/// # Safety
/// `topic` is a description in a result that lives through the call.
unsafe fn topic_description(topic: *const sys::rd_kafka_TopicDescription_t) -> TopicDescription {
    // SAFETY: what is read belongs to the description; arrays have the length that librdkafka gives with them.
    unsafe {
        let mut count = 0;
        let partitions = sys::rd_kafka_TopicDescription_partitions(topic, &mut count);
        let error = sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(topic));
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let has_id = !id.is_null()
            && (sys::rd_kafka_Uuid_most_significant_bits(id), sys::rd_kafka_Uuid_least_significant_bits(id)) != (0, 0);
        TopicDescription {
            name: text(sys::rd_kafka_TopicDescription_name(topic)),
            id: if has_id { text(sys::rd_kafka_Uuid_base64str(id)) } else { String::new() },
            partitions: (0..count).map(|at| sys::rd_kafka_TopicPartitionInfo_partition(*partitions.add(at))).collect(),
            error: (error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| error.into()),
        }
    }
}

/// # Safety
/// `at` is null or a C string that lives through the call.
unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: by this function's own contract.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// An object of librdkafka's and the function that destroys it.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by the caller for this guard alone; destroyed once, by the function made for its type.
            unsafe { (self.1)(self.0) };
        }
    }
}
