package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
)

const (
	manifests = 1000
	repeats   = 5
)

// commandLine measures apply, start-up and the binary's size.
func (b *bench) commandLine() error {
	yamlFile, jsonFile, err := b.writeManifests()
	if err != nil {
		return err
	}
	policies := filepath.Join(b.root, "examples", "pod-security")
	fromYAML, err := repeat(b.ephor, "apply", policies, "--resource", yamlFile)
	if err != nil {
		return err
	}
	fromJSON, err := repeat(b.ephor, "apply", policies, "--resource", jsonFile)
	if err != nil {
		return err
	}
	start, err := repeat(b.ephor, "version")
	if err != nil {
		return err
	}
	binary, err := os.Stat(b.ephor)
	if err != nil {
		return err
	}
	floorYAML, floorJSON, err := readingFloors(yamlFile, jsonFile)
	if err != nil {
		return err
	}
	fmt.Printf("apply 18 policies to %d Pods, YAML: %.2f s wall, %.2f s CPU, %.0f MB (reading it with sigs.k8s.io/yaml on one core: %.2f s)\n",
		manifests, fromYAML.wall.Seconds(), fromYAML.cpu.Seconds(), fromYAML.peakMB, floorYAML.Seconds())
	fmt.Printf("apply 18 policies to %d Pods, JSON: %.2f s wall, %.2f s CPU, %.0f MB (reading it with encoding/json on one core: %.2f s)\n",
		manifests, fromJSON.wall.Seconds(), fromJSON.cpu.Seconds(), fromJSON.peakMB, floorJSON.Seconds())
	inCEL, err := repeat(b.ephor, "apply", filepath.Join(b.root, "examples", celPolicies), "--resource", yamlFile)
	if err != nil {
		return err
	}
	fmt.Printf("apply 18 policies in CEL to %d Pods, YAML: %.2f s wall, %.2f s CPU, %.0f MB\n", manifests, inCEL.wall.Seconds(), inCEL.cpu.Seconds(), inCEL.peakMB)
	fmt.Printf("version: %.0f ms, %.0f MB\n", float64(start.wall.Milliseconds()), start.peakMB)
	b.row("apply-yaml", "s", fromYAML.wall.Seconds(), 0.8)
	b.row("apply-yaml memory", "MB", fromYAML.peakMB, 150)
	b.row("apply-cel", "s", inCEL.wall.Seconds(), 0.5)
	b.row("apply-json", "s", fromJSON.wall.Seconds(), 0.3)
	b.row("start", "ms", float64(start.wall.Milliseconds()), 40)
	b.row("start memory", "MB", start.peakMB, 60)
	b.row("binary", "MB", float64(binary.Size())/1e6, 100)
	return nil
}

// repeat runs a command several times and returns the median times and the highest memory.
func repeat(path string, args ...string) (run, error) {
	var wall, cpu []time.Duration
	var peak float64
	for range repeats {
		r, err := measure(path, args...)
		if err != nil {
			return run{}, err
		}
		wall, cpu, peak = append(wall, r.wall), append(cpu, r.cpu), max(peak, r.peakMB)
	}
	return run{wall: load.Median(wall), cpu: load.Median(cpu), peakMB: peak}, nil
}

// writeManifests writes the Pods as block YAML and as JSON, one document each; every tenth one is bad.
func (b *bench) writeManifests() (yamlFile, jsonFile string, err error) {
	yamlFile, jsonFile = filepath.Join(b.dir, "pods.yaml"), filepath.Join(b.dir, "pods.json")
	y, err := os.Create(yamlFile)
	if err != nil {
		return "", "", err
	}
	defer y.Close()
	j, err := os.Create(jsonFile)
	if err != nil {
		return "", "", err
	}
	defer j.Close()
	yw, jw := bufio.NewWriter(y), bufio.NewWriter(j)
	for i := range manifests {
		doc := load.JSON(manifest(fmt.Sprintf("pod-%04d", i), i%10 == 9))
		block, err := yaml.JSONToYAML(doc)
		if err != nil {
			return "", "", err
		}
		fmt.Fprintf(yw, "---\n%s", block)
		fmt.Fprintf(jw, "%s\n", doc)
	}
	if err := yw.Flush(); err != nil {
		return "", "", err
	}
	return yamlFile, jsonFile, jw.Flush()
}

// manifest returns the Pod as its author writes it: without fields that the server adds.
func manifest(name string, bad bool) object {
	p := load.Pod(name, bad)
	meta := p["metadata"].(object)
	delete(meta, "managedFields")
	delete(meta, "uid")
	delete(meta, "creationTimestamp")
	return p
}

// readingFloors returns the cost of only reading the files on one core with the usual libraries.
func readingFloors(yamlFile, jsonFile string) (fromYAML, fromJSON time.Duration, err error) {
	y, err := os.ReadFile(yamlFile)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	for doc := range bytes.SplitSeq(y, []byte("---\n")) {
		var v any
		if err := yaml.Unmarshal(doc, &v); err != nil {
			return 0, 0, err
		}
	}
	fromYAML = time.Since(start)
	f, err := os.Open(jsonFile)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	start = time.Now()
	for dec := json.NewDecoder(f); dec.More(); {
		var v any
		if err := dec.Decode(&v); err != nil {
			return 0, 0, err
		}
	}
	return fromYAML, time.Since(start), nil
}
