package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
)

// The decisions in the measurement: as many as are stored in ten minutes at 2,000 a second, and the number in one query.
const (
	ingested  = 1_200_000
	queried   = 10_000_000
	perSecond = 2000
)

// decisions measures the store in a file on one core: the time and the space for a decision, and a query by policy and day among ten
// million (SHORT=1: a tenth of them).
func (b *bench) decisions() (err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first, all := ingested, queried
	if os.Getenv("SHORT") != "" {
		first, all = first/10, all/10
	}
	path := filepath.Join(b.dir, "decisions.db")
	s, err := store.NewSQLite(path, store.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, begin := context.Background(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// Ten million within ten days, so that each day has a million.
	apart := 10 * 24 * time.Hour / time.Duration(all)
	written := 0
	write := func(until int) (time.Duration, error) {
		before := ownCPU()
		for written < until {
			batch := make([]decision.Record, 0, 256)
			for len(batch) < cap(batch) && written < until {
				batch = append(batch, decisionOf(written, begin.Add(time.Duration(written)*apart)))
				written++
			}
			if err := s.Write(ctx, batch); err != nil {
				return 0, err
			}
		}
		return ownCPU() - before, nil
	}
	cpu, err := write(first)
	if err != nil {
		return err
	}
	each := float64(cpu.Microseconds()) / float64(first)
	fmt.Printf("%d decisions stored: %.1f µs of CPU each, %.0f a second on one core\n", first, each, 1e6/each)
	if _, err := write(all); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	bytes := float64(info.Size()) / float64(all)
	fmt.Printf("%d decisions take %.0f bytes each\n", all, bytes)
	var took []time.Duration
	for day := range 9 {
		at := time.Now()
		q := &decision.Query{Policies: []string{fmt.Sprintf("policy-%d", 2*day)}, Since: begin.AddDate(0, 0, day), Until: begin.AddDate(0, 0, day+1)}
		page, err := s.Page(ctx, q, "", 1000)
		if err != nil {
			return err
		}
		if len(page.Records) != 1000 {
			return fmt.Errorf("a query found %d decisions", len(page.Records))
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	fmt.Printf("a query by policy and day, a page of 1,000: median %v, slowest %v\n", took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	b.row("decision, CPU to store it", "µs", math.Round(each), 1e6/perSecond)
	b.row("decision, bytes in the file", "B", math.Round(bytes), 200)
	b.row("query by policy and day", "ms", float64(took[len(took)/2].Milliseconds()), 300)
	b.print()
	return nil
}

// decisionOf returns the i-th decision. About half of the stored ones are denials, as when one of 99 admitted reviews is recorded for each
// denial.
func decisionOf(i int, at time.Time) decision.Record {
	id := make([]byte, 32)
	_, _ = rand.Read(id) // it never fails
	r := decision.Record{
		Schema: decision.Schema, Time: at, Duration: time.Duration(300+i%700) * time.Microsecond,
		UID:     fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		Webhook: "ValidatingWebhookConfiguration", User: fmt.Sprintf("system:serviceaccount:team-%d:deployer", i%200), Groups: []string{"system:serviceaccounts", "system:authenticated"},
		Operation: "CREATE", Version: "v1", Kind: "Pod", Namespace: fmt.Sprintf("team-%d", i%200), Name: fmt.Sprintf("web-%x-%x", id[16:20], id[20:23]),
		Verdict: decision.Passed, Allowed: true, Share: 0.01, Policies: strings.Repeat("0a", 16), Object: fmt.Sprintf("%x", id[16:]),
	}
	for p := range 18 {
		r.Rules = append(r.Rules, decision.Result{Policy: fmt.Sprintf("policy-%d", p), Rule: "check", Status: "pass", Action: "Enforce", Duration: time.Duration(5+(i+p)%40) * time.Microsecond})
	}
	if i%2 == 0 {
		x := &r.Rules[i/2%18]
		r.Verdict, r.Allowed, r.Share, x.Status = decision.Refused, false, 1, "fail"
		x.Message, x.Path = "validation error: the label team is required. rule check failed at path /metadata/labels/team/", "/metadata/labels/team/"
		r.Message = "resource Pod/" + r.Namespace + "/" + r.Name + " was blocked due to the following policies \n\n" + x.Policy + ":\n  check: '" + x.Message + "'\n"
	}
	return r
}
