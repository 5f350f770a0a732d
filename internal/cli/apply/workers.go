package apply

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world/fixed"
)

// workers holds the data that the evaluating goroutines share.
type workers struct {
	evaluation
	ctx       context.Context
	evaluator *offline.Evaluator
}

func (j *workers) batch(b *batch) evaluated {
	var out evaluated
	if b.page != nil {
		j.objects(j.evaluator.About(b.page.Kind), b.page.Objects, &out)
		return out
	}
	for _, d := range b.docs {
		objects, diags := d.Decode(source.Floats)
		out.diags = append(out.diags, diags...)
		for i := range objects {
			j.definitions.Scopes.Normalise(objects[i].Value)
			out.diags.Add(objects[i].Misnamed()...)
		}
		j.objects(j.evaluator, objects, &out)
	}
	return out
}

// manyObjects is the number of items in a List from which it is worth distributing them to several processors.
const manyObjects = 64

func (j *workers) objects(by *offline.Evaluator, objects []source.Object, out *evaluated) {
	workers := runtime.GOMAXPROCS(0)
	if len(objects) < manyObjects || workers == 1 {
		for i := range objects {
			out.add(j.object(by, objects[i]))
		}
		return
	}
	parts := make([]evaluated, workers)
	share := (len(objects) + workers - 1) / workers
	var wg sync.WaitGroup
	for w := range parts {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := w * share; i < min((w+1)*share, len(objects)); i++ {
				parts[w].add(j.object(by, objects[i]))
			}
		}()
	}
	wg.Wait()
	for _, p := range parts {
		out.add(p)
	}
}

func (j *workers) object(by *offline.Evaluator, o source.Object) evaluated {
	if j.cluster == nil && fixed.IsGlobalContextEntry(o.Value) { // it defines data for lookups and is not a resource
		_, mistakes := globalentry.Compile(o.Value)
		for i := range mistakes {
			mistakes[i].Pos = o.Pos(mistakes[i].Path)
		}
		return evaluated{diags: mistakes}
	}
	answers, err := by.All(j.ctx, o.Value)
	return j.gather(by, o, answers, err)
}

// payload evaluates the policies for documents on one document.
func (j *workers) payload(p load.Payload) evaluated {
	by := j.evaluator.OfDocuments(p.Sort)
	answers, err := by.All(j.ctx, p.Value)
	return j.gather(by, source.Object{Value: p.Value, Pos: func(string) diag.Position { return diag.Position{File: p.Path} }}, answers, err)
}

// gather converts the answers about an object to the entries that are printed and counted.
func (j *workers) gather(by *offline.Evaluator, o source.Object, answers []offline.Answer, err error) evaluated {
	out := evaluated{resources: 1}
	var deletions []policy.Outcome
	if err == nil {
		deletions, err = by.Deletions(j.ctx, o.Value)
	}
	if err != nil {
		out.diags.Add(diag.Diagnostic{Pos: o.Pos(""), Summary: "failed to apply policies on resource " + o.Name() + " (" + err.Error() + ")"})
		return out
	}
	var entries []report.Entry
	for i := range answers {
		out.exceptions.Add(answers[i].ExceptionErrors...)
		of := report.Entries(answers[i].Outcome, j.entries)
		entries = append(entries, of...)
		if j.tellErrors && !(j.showChanges && answers[i].Stage.Has(policy.StageMutate|policy.StageGenerate)) { // those errors are printed with the changes
			out.diags.Add(errorsOf(of, o.Pos)...)
		}
		if !j.keepChanges {
			continue
		}
		changes, err := j.changesOf(answers[i])
		if err != nil {
			out.diags.Add(diag.Diagnostic{Pos: o.Pos(""), Summary: "failed to write resource " + o.Name() + " (" + err.Error() + ")"})
			continue
		}
		out.changes = append(out.changes, changes...)
	}
	var last []report.Entry
	for i := range deletions {
		out.exceptions.Add(deletions[i].ExceptionErrors...)
		of := report.Entries(deletions[i], j.entries)
		last = append(last, of...)
		if j.tellErrors {
			out.diags.Add(errorsOf(of, o.Pos)...)
		}
	}
	for _, list := range [][]report.Entry{entries, last} {
		for i := range list {
			if list[i].Status == policy.StatusError {
				out.errs(list[i].Program)
			}
		}
	}
	if j.findings {
		out.findings = findingsOf(slices.Concat(entries, last), o.Pos)
	}
	out.entries, out.last = j.count(&out.summary, entries), j.count(&out.summary, last)
	return out
}

// count adds the entries to the summary and returns those that are shown.
func (j *workers) count(s *report.Summary, entries []report.Entry) []report.Entry {
	for i := range entries {
		if e := &entries[i]; e.Status != policy.StatusSkip || !e.Rule.Offline.SkipsUncounted { // the others are not counted
			s.Add(e.Status)
		}
	}
	if j.keepAll {
		return entries
	}
	kept := entries[:0]
	for i := range entries {
		if shown(entries[i].Status) {
			kept = append(kept, entries[i])
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return append([]report.Entry(nil), kept...) // the copy releases the memory of the passes
}

// changesOf returns the changes that an answer contains. A policy of a kind without rules has none for an object that it does not match.
// Other policies have, as in Kyverno, because the reader of a pipe expects every object.
func (j *workers) changesOf(a offline.Answer) ([]change, error) {
	switch {
	case a.Stage.Has(policy.StageMutate):
		if len(a.Results) == 0 && a.Object == a.Request.Object && !j.hasRules(a.Program) {
			return nil, nil
		}
		c, err := changeOf(a)
		return []change{c}, err
	case a.Stage.Has(policy.StageGenerate):
		return generationsOf(a.Outcome)
	}
	return nil, nil
}

// hasRules reports whether the policy is of a kind with rules.
func (j *workers) hasRules(p *policy.Program) bool {
	k := j.families.Kinds().Owner(p.APIVersion, p.Kind)
	return k != nil && k.Rules
}
