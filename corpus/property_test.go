package corpus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// everything is one snapshot of the policies of all cases, with the objects that they evaluate.
type everything struct {
	snapshot  *catalog.Snapshot
	resources []func() (*policy.Request, *Case)
}

func loadEverything(t *testing.T) everything {
	t.Helper()
	cases, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var all everything
	var programs []*policy.Program
	for _, c := range cases {
		if strings.HasPrefix(c.Name, "limits/") {
			continue // these use up the whole budget of a rule, which takes time
		}
		compiled, diags := c.Compile()
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		programs = append(programs, compiled...)
		for _, r := range c.Resources {
			all.resources = append(all.resources, func() (*policy.Request, *Case) { return c.Request(r, false), c })
		}
	}
	all.snapshot = catalog.NewStatic(programs)
	return all
}

// print writes all visible parts of an Outcome.
func print(out policy.Outcome) string {
	var b strings.Builder
	for _, r := range out.Results {
		fmt.Fprintf(&b, "%s/%s %v %s %q %q %s", r.Program.Key(), r.Rule.Name, r.Action, r.Status, r.Message, r.Path, value.JSON(r.Properties))
		for _, e := range r.Exceptions {
			fmt.Fprintf(&b, " %v", e)
		}
		for _, w := range r.Work {
			fmt.Fprintf(&b, " %s %v %v", w.Kind, w.Synchronize, w.Err)
			for _, g := range w.Generated {
				b.WriteString(" " + value.JSON(g.Object))
			}
			for _, m := range w.Targets {
				b.WriteString(" " + value.JSON(m.After) + m.Message)
			}
		}
		b.WriteByte('\n')
	}
	if v, err := out.Object.Value(); err == nil {
		b.WriteString(value.JSON(v))
	}
	fmt.Fprintf(&b, " %v %v", out.Warnings, engine.Decide(&out, engine.ValidateWording))
	return b.String()
}

// An object that contains only the fields that a rule reads is evaluated like the whole object.
func TestPartialObjectsAreEvaluatedAlike(t *testing.T) {
	cases, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	partial := 0
	for _, c := range cases {
		programs, diags := c.Compile()
		if diags.HasErrors() || strings.HasPrefix(c.Name, "limits/") {
			continue
		}
		for _, p := range programs {
			for _, r := range p.Rules {
				alone := *p
				alone.Rules = []*policy.Rule{r}
				e := everything{snapshot: catalog.NewStatic([]*policy.Program{&alone})}
				for _, text := range c.Resources {
					req := c.Request(text, false)
					reads := e.snapshot.Reads(req, catalog.Route{Stages: every})
					if reads == nil {
						continue
					}
					object, _ := req.Object.Value()
					part, err := value.NewReader(value.JSON(object)).Part(reads)
					if err != nil {
						t.Fatal(err)
					}
					partial++
					less := c.Request(text, false)
					less.Object = part
					want, got := e.outcome(req, c), e.outcome(less, c)
					got.Object = want.Object
					if print(want) != print(got) {
						t.Errorf("%s: %s of %s reads %v:\n%s\nof the whole object:\n%s", c.Name, r.Name, p.Key(), reads, print(got), print(want))
					}
				}
			}
		}
	}
	if partial < 100 {
		t.Errorf("only %d partial objects were evaluated", partial)
	}
}

const every = mutating | validating | policy.StageGenerate | policy.StageMutateExisting | policy.StageDelete

func (e everything) evaluate(req *policy.Request, c *Case) string { return print(e.outcome(req, c)) }

func (e everything) outcome(req *policy.Request, c *Case) policy.Outcome {
	return engine.Eval(context.Background(), engine.Input{
		Selections: e.snapshot.For(req, catalog.Route{Stages: every}), Request: req, Stages: every, Root: c.Root(false), Plan: true,
	})
}

// TestSameAgain tests that the same request in the same world gives the same Outcome, byte for byte, also with policies
// that were compiled again.
func TestSameAgain(t *testing.T) {
	first, second := loadEverything(t), loadEverything(t)
	for i, r := range first.resources {
		want := first.evaluate(r())
		for range 5 {
			if got := first.evaluate(r()); got != want {
				t.Fatalf("first\n%s\nthen\n%s", want, got)
			}
		}
		if got := second.evaluate(second.resources[i]()); got != want {
			t.Fatalf("first\n%s\ncompiled anew\n%s", want, got)
		}
	}
	t.Logf("%d requests", len(first.resources))
}

// TestEightGoroutines tests that goroutines may share a snapshot and a request; run it with -race.
func TestEightGoroutines(t *testing.T) {
	all := loadEverything(t)
	type shared struct {
		req  *policy.Request
		c    *Case
		want string
	}
	var requests []shared
	for _, r := range all.resources {
		req, c := r()
		again, _ := r()
		requests = append(requests, shared{req, c, all.evaluate(again, c)})
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for round := range 4 {
				for i := range requests {
					r := requests[(i*(n+1)+round)%len(requests)]
					if got := all.evaluate(r.req, r.c); got != r.want {
						t.Errorf("alone\n%s\nshared\n%s", r.want, got)
						return
					}
				}
			}
		}()
	}
	wg.Wait()
	t.Logf("%d requests, 8 goroutines", len(requests))
}
