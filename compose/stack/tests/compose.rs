//! The containers of compose/compose.yaml are those of the table of versions, and the same parts as natively.
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use yaml_rust2::{Yaml, YamlLoader};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn services() -> Vec<(String, Yaml)> {
    let text = fs::read_to_string(root().join("compose/compose.yaml")).unwrap();
    let file = YamlLoader::load_from_str(&text).unwrap().remove(0);
    let services = file["services"].as_hash().unwrap();
    services.iter().map(|(name, service)| (name.as_str().unwrap().to_string(), service.clone())).collect()
}

/// With what `<<` brings in; a key of the service's own wins.
fn merged<'a>(service: &'a Yaml, key: &str) -> &'a Yaml {
    let own = &service[key];
    if own.is_badvalue() { &service["<<"][key] } else { own }
}

/// Part, client, package.
fn versions() -> Vec<[String; 3]> {
    let table = fs::read_to_string(root().join("scripts/versions")).unwrap();
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let words = lines.map(|line| line.split_whitespace().map(str::to_string).collect::<Vec<_>>());
    words.map(|words| words.try_into().unwrap()).collect()
}

fn images_of_the_table() -> BTreeSet<String> {
    versions().into_iter().filter(|[_, client, _]| client == "image").map(|[_, _, image]| image).collect()
}

/// `4.3.1` of `apache/kafka:4.3.1`, `1.20.5` of `flink:1.20.5-scala_2.12-java17`, `1.8.0` of `…:v1.8.0`.
fn version_of(image: &str) -> &str {
    let tag = image.rsplit_once(':').unwrap().1.trim_start_matches('v');
    tag.split('-').next().unwrap()
}

#[test]
fn every_container_has_the_image_of_the_table_and_every_image_is_used() {
    let used: BTreeSet<String> =
        services().iter().map(|(_, service)| merged(service, "image").as_str().unwrap().to_string()).collect();
    assert_eq!(used, images_of_the_table());
}

#[test]
fn an_image_has_the_version_that_runs_natively() {
    let table = versions();
    for [part, _, image] in table.iter().filter(|[_, client, _]| client == "image") {
        let version = version_of(image);
        let mut native = table.iter().filter(|[of, client, _]| of == part && client != "image").peekable();
        // Debian's package or none.
        if native.peek().is_none() {
            assert!(["postgres", "prometheus", "grafana"].contains(&part.as_str()), "{part}");
        } else {
            assert!(native.any(|[_, _, package]| package.contains(version)), "{part}: {image}");
        }
    }
}

#[test]
fn every_container_is_probed_and_listens_on_this_machine_only() {
    for (name, service) in services() {
        // It does one thing and ends.
        if name == "flink-folder" {
            continue;
        }
        assert!(!merged(&service, "healthcheck")["test"].is_badvalue(), "{name} has no health check");
        for port in merged(&service, "ports").as_vec().unwrap_or(&Vec::new()) {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: {port:?}");
        }
    }
}

#[test]
fn what_a_container_waits_for_is_there() {
    let names: BTreeSet<String> = services().into_iter().map(|(name, _)| name).collect();
    for (name, service) in services() {
        let waits_for = merged(&service, "depends_on").as_hash().cloned().unwrap_or_default();
        for other in waits_for.keys().map(|other| other.as_str().unwrap()) {
            assert!(names.contains(other), "{name} waits for {other}");
        }
    }
}

/// Where docker-compose is at hand it knows more of the format than we do; elsewhere there is nothing to ask.
#[test]
fn docker_compose_takes_the_file_with_one_node_and_with_three() {
    let compose = root().join("compose");
    for nodes in [&[][..], &["--env-file", "three-nodes.env"]] {
        let mut config = Command::new("docker-compose");
        config.args(["-f", "compose.yaml"]).args(nodes).args(["config", "--quiet"]).current_dir(&compose);
        let Ok(output) = config.output() else {
            println!("docker-compose isn't installed");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
