package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
)

// The reviews in a round of recording: Pods with recordedPods names, one of them violating.
const (
	recordingRounds   = 7
	recordingRequests = 8000 // in each round
	recordedPods      = 100
	recordingRest     = 3 * time.Second // a batch is written after at most a second
)

// recording measures the cost of recording decisions in the admission process. Replicas with the same policies record nothing, the default
// share of decisions, and all decisions with the requests, to the store of the reports controller and to a file, in interleaved rounds.
func (b *bench) recording() error {
	rounds, requests := recordingRounds, recordingRequests
	if os.Getenv("SHORT") != "" {
		rounds, requests = 3, requests/4
	}
	port, err := devcluster.FreePort()
	if err != nil {
		return err
	}
	const ca = "decisions.kyverno-tls-ca"
	toStore := []string{fmt.Sprintf("--decisions=https://localhost:%d", port), "--decisionsCASecretName=" + ca, "--decisionsTLSSecretName=decisions-sender.kyverno-tls-pair"}
	toFile := []string{"--decisions=" + filepath.Join(b.dir, "decisions.jsonl")}
	everything := []string{"--decisionsShare=1", "--decisionsRequests", "--maxQueuedDecisions=10000"}
	sets := []struct {
		name       string
		flags      []string
		everything bool
	}{
		{"nothing", nil, false},
		{"default share, to the store", toStore, false},
		{"everything with requests, to the store", slices.Concat(toStore, everything), true},
		{"everything with requests, to a file", slices.Concat(toFile, everything), true},
	}
	replicas := make([][]string, len(sets))
	for i, s := range sets {
		replicas[i] = s.flags
	}
	c, servers, err := b.startReplicas("dashboard", func(ctx context.Context, e *devcluster.Ephor) error {
		_, err := e.Start(ctx, devcluster.Reports, "--decisionsStore=sqlite:"+filepath.Join(b.dir, "recording.db"), fmt.Sprintf("--decisionsStorePort=%d", port),
			"--decisionsStoreService=localhost", "--decisionsStoreCASecretName="+ca, "--decisionsStoreTLSSecretName=decisions.kyverno-tls-pair")
		return err
	}, replicas, classicPolicies)
	if err != nil {
		return err
	}
	defer c.Stop()
	var questions []load.Question
	for i := range recordedPods {
		bad := i == 0
		questions = append(questions, load.Question{Body: load.Review(load.Pod(fmt.Sprintf("shop-%d", i), bad)), Allowed: !bad})
	}
	cpu, ratios, more := make([][]time.Duration, len(sets)), make([][]float64, len(sets)), make([][]float64, len(sets))
	for round := range rounds + 1 {
		var plain, plainMB float64
		for i, s := range servers {
			before, err := load.CPUTime(s.PID)
			if err != nil {
				return err
			}
			if _, err := s.Round(requests, questions...); err != nil {
				return fmt.Errorf("%s: %w", sets[i].name, err)
			}
			mb, err := load.ResidentMB(s.PID)
			if err != nil {
				return err
			}
			time.Sleep(recordingRest) // writing the waiting records is part of the round
			after, err := load.CPUTime(s.PID)
			if err != nil {
				return err
			}
			each := (after - before) / time.Duration(requests)
			if i == 0 {
				plain, plainMB = float64(each), mb
			}
			if round > 0 { // the first round only warms up
				cpu[i], ratios[i], more[i] = append(cpu[i], each), append(ratios[i], float64(each)/plain), append(more[i], mb-plainMB)
			}
		}
	}
	for i, s := range servers {
		kept, dropped, err := decisionsOf(s)
		if err != nil {
			return err
		}
		// Records that are lost cost nothing, so a round with such is not measured.
		if all := (rounds + 1) * requests; dropped > 0 || sets[i].everything && kept < all {
			return fmt.Errorf("%s: of %d reviews %d are recorded, and %d are lost", sets[i].name, all, kept, dropped)
		}
	}
	for i, s := range sets {
		fmt.Printf("recorded: %-40s CPU %5.0f µs per review, %.2f x; %+.0f MB\n", s.name, float64(load.Median(cpu[i]).Nanoseconds())/1000, load.Median(ratios[i]), load.Median(more[i]))
	}
	b.row("decisions, default share", "x", load.Median(ratios[1]), 1.05)
	b.row("decisions, all with requests", "x", max(load.Median(ratios[2]), load.Median(ratios[3])), 1.25)
	b.row("decisions, more memory", "MB", load.Median(more[1]), 10)
	b.row("all with requests, more memory", "MB", max(load.Median(more[2]), load.Median(more[3])), 10)
	return nil
}

// decisionsOf returns how many decisions a replica recorded, and how many it lost.
func decisionsOf(s *load.Server) (kept, dropped int, err error) {
	answer, err := http.Get("http://" + s.Metrics + "/metrics")
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		switch {
		case err != nil:
		case name == "ephor_decisions_recorded_total":
			kept += int(n)
		case name == "ephor_decisions_dropped_total":
			dropped += int(n)
		}
	}
	return kept, dropped, lines.Err()
}
