package cli

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/clivalues"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family/native"
	"github.com/ephor-dev/ephor/internal/globalentry"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
	"github.com/ephor-dev/ephor/internal/source"
	"github.com/ephor-dev/ephor/internal/world"
	"github.com/ephor-dev/ephor/internal/world/fixed"
)

// evaluation is a set of policies and the resources to evaluate them on.
type evaluation struct {
	programs []*policy.Program
	inputs   []source.Input
	// keepAll keeps every entry; otherwise only those that the text output shows.
	keepAll bool
	// tellErrors makes a diagnostic of every rule that ends in an error: output without messages only counts them.
	tellErrors bool
	// keepChanges keeps what mutate rules made of the resources.
	keepChanges bool
	entries     report.Options
	progress    *terminal.Progress
	given       *clivalues.Set // nil when nothing was given
	targets     []source.Input // objects beside the resources that rules may look up or change
	parameters  []source.Input // those that are parameters of rules
	definitions customKinds
	images      world.Images // nil: registries are not asked
	context     clivalues.Context
	payloads    []payload
	// cluster, when set, is where the resources are from, and where rules look things up; query says which ones.
	cluster *cluster
	query   clusterQuery
	timing  func(page) // is called for every page; nil if not requested
}

// evaluated is what the evaluation gave, in the order of the input.
type evaluated struct {
	resources int
	entries   []report.Entry
	changes   []change
	// last are the entries of the policies that are asked after all others: those that delete.
	last    []report.Entry
	summary report.Summary
	diags   diag.List
	err     error // why the run is over
	// names are those of the objects that were listed, where names were asked for.
	names map[string]bool
}

func (j *evaluated) add(o evaluated) {
	j.resources += o.resources
	j.entries = append(j.entries, o.entries...)
	j.changes = append(j.changes, o.changes...)
	j.last = append(j.last, o.last...)
	j.diags = append(j.diags, o.diags...)
	j.summary.Pass += o.summary.Pass
	j.summary.Fail += o.summary.Fail
	j.summary.Warn += o.summary.Warn
	j.summary.Error += o.summary.Error
	j.summary.Skip += o.summary.Skip
	if j.err == nil {
		j.err = o.err
	}
	for name := range o.names {
		if j.names == nil {
			j.names = map[string]bool{}
		}
		j.names[name] = true
	}
}

// batch is a run of documents that one worker takes at once; answer gets its result.
type batch struct {
	docs   []source.Document
	bytes  int
	page   *page // of a cluster, instead of documents
	answer chan evaluated
}

// batchBytes makes batches big enough that handing them over costs nothing, and small enough to keep all workers busy.
const batchBytes = 64 << 10

// evaluateAll reads, evaluates and drops the resources document by document in all processors, so that memory stays bounded
// by the text of the largest file, and gathers the results in the order of the input.
func evaluateAll(ctx context.Context, j evaluation) evaluated {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	evaluate := &evaluate{evaluation: j, ctx: ctx, evaluator: newEvaluator(j.programs, j.world(), j.given)}
	evaluate.evaluator.names = j.definitions.names
	if j.cluster != nil {
		evaluate.evaluator.cluster = j.cluster
	}
	workers := runtime.GOMAXPROCS(0)
	work := make(chan *batch, workers)
	order := make(chan *batch, 4*workers) // batches whose results are due, in order
	var wg sync.WaitGroup
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for b := range work {
				b.answer <- evaluate.batch(b)
			}
		}()
	}
	go func() {
		defer close(order)
		defer close(work)
		emit := func(b *batch) { order <- b; work <- b }
		known := func(r evaluated) {
			b := &batch{answer: make(chan evaluated, 1)}
			b.answer <- r
			order <- b
		}
		if j.cluster != nil {
			j.feedCluster(ctx, emit, known)
		} else {
			j.feedFiles(emit, known)
		}
	}()
	var all evaluated
	for b := range order {
		all.add(<-b.answer)
		j.progress.Add(b.size())
		if all.err != nil {
			stop() // what is under way ends soon, and is not looked at
		}
	}
	wg.Wait()
	j.progress.End()
	for _, p := range j.payloads {
		all.add(evaluate.payload(p))
	}
	all.entries, all.last = append(all.entries, all.last...), nil
	return all
}

// feedFiles emits the resources of the files, batch by batch; what is known without evaluating goes to known.
func (j evaluation) feedFiles(emit func(*batch), known func(evaluated)) {
	for _, in := range j.inputs {
		docs, diags := source.Open(in)
		j.progress.Total(len(docs))
		if len(diags) > 0 {
			known(evaluated{diags: diags})
		}
		b := &batch{answer: make(chan evaluated, 1)}
		for _, d := range docs {
			b.docs = append(b.docs, d)
			if b.bytes += d.Size(); b.bytes >= batchBytes {
				emit(b)
				b = &batch{answer: make(chan evaluated, 1)}
			}
		}
		if len(b.docs) > 0 {
			emit(b)
		}
	}
}

// feedCluster emits the objects of the cluster, page by page: no more than some pages are held at once.
func (j evaluation) feedCluster(ctx context.Context, emit func(*batch), known func(evaluated)) {
	kinds := map[string]int{}
	for _, k := range j.query.kinds {
		kinds[k.Kind]++
	}
	seen := map[types.UID]bool{}
	j.cluster.list(ctx, j.query, func(p page) {
		if j.timing != nil {
			j.timing(p)
		}
		if kinds[p.kind.Kind] > 1 && p.kind.Subresource == "" { // one kind in several groups, such as Event
			p.objects = slices.DeleteFunc(p.objects, func(o source.Object) bool {
				uid := (&unstructured.Unstructured{Object: o.Value}).GetUID()
				again := seen[uid]
				seen[uid] = true
				return again
			})
		}
		if len(j.query.names) > 0 {
			found := evaluated{names: map[string]bool{}}
			for _, o := range p.objects {
				found.names[o.Name()] = true
			}
			known(found)
		}
		j.progress.Total(len(p.objects))
		if len(p.objects) > 0 {
			emit(&batch{page: &p, answer: make(chan evaluated, 1)})
		}
		if p.err == nil {
			return
		}
		if j.query.strict {
			known(evaluated{err: p.err})
			return
		}
		known(evaluated{diags: diag.List{{Severity: diag.Warning, Pos: diag.Position{File: p.kind.Kind}, Summary: p.err.Error(), Hint: "these are not evaluated"}}})
	})
}

// size is how many documents or objects the batch holds.
func (b *batch) size() int {
	if b.page != nil {
		return len(b.page.objects)
	}
	return len(b.docs)
}

// world is what the rules can look things up in.
func (j evaluation) world() world.Root {
	images := j.images
	if images == nil {
		images = j.context.Images
	}
	given := fixed.New(fixed.Values{
		Now: Now, NamespaceLabels: j.given.Namespaces(), EveryNamespace: true, Objects: j.readObjects, Images: images, HTTP: httpServices(),
		ContextResources: func() ([]map[string]any, error) { return j.context.Resources, nil },
		Parameters:       func() ([]map[string]any, error) { return j.read(j.parameters), nil },
	})
	switch {
	case j.cluster == nil:
		return given
	case len(j.targets)+len(j.parameters) == 0:
		return j.cluster.root
	}
	return overlay{given, j.cluster.root}
}

// readObjects reads all resources at once: the made-up cluster in which rules look things up. It is called when the first
// rule does; until then resources are only held while they are evaluated.
func (j evaluation) readObjects() ([]map[string]any, error) {
	return slices.Concat(j.definitions.objects, j.given.Objects(), j.read(slices.Concat(j.inputs, j.targets, j.parameters))), nil
}

func (j evaluation) read(inputs []source.Input) (out []map[string]any) {
	for _, in := range inputs {
		docs, _ := source.Open(in) // mistakes are reported where the resources are evaluated
		for _, d := range docs {
			objects, _ := d.Decode(source.Floats)
			for _, o := range objects {
				j.definitions.scopes.Normalise(o.Value)
				out = append(out, o.Value)
			}
		}
	}
	return out
}

// evaluate holds what the workers share.
type evaluate struct {
	evaluation
	ctx       context.Context
	evaluator *evaluator
}

func (j *evaluate) batch(b *batch) evaluated {
	var out evaluated
	if b.page != nil {
		j.objects(j.evaluator.about(b.page.kind), b.page.objects, &out)
		return out
	}
	for _, d := range b.docs {
		objects, diags := d.Decode(source.Floats)
		out.diags = append(out.diags, diags...)
		for i := range objects {
			j.definitions.scopes.Normalise(objects[i].Value)
		}
		j.objects(j.evaluator, objects, &out)
	}
	return out
}

// manyObjects is from where the items of one List are worth sharing between processors.
const manyObjects = 64

func (j *evaluate) objects(by *evaluator, objects []source.Object, out *evaluated) {
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

func (j *evaluate) object(by *evaluator, o source.Object) evaluated {
	if j.cluster == nil && fixed.IsGlobalContextEntry(o.Value) { // it describes the world and is no resource
		_, mistakes := globalentry.Compile(o.Value)
		for i := range mistakes {
			mistakes[i].Pos = o.Pos(mistakes[i].Path)
		}
		return evaluated{diags: mistakes}
	}
	answers, err := by.all(j.ctx, o.Value)
	return j.gather(by, o, answers, err)
}

// gather makes of the answers about an object what is printed and counted.
func (j *evaluate) gather(by *evaluator, o source.Object, answers []answer, err error) evaluated {
	out := evaluated{resources: 1}
	var deletions []policy.Outcome
	if err == nil {
		deletions, err = by.deletions(j.ctx, o.Value)
	}
	if over := (*deletionError)(nil); errors.As(err, &over) {
		out.err = err
		return out
	}
	if err != nil {
		out.diags.Add(diag.Diagnostic{Pos: o.Pos(""), Summary: "failed to apply policies on resource " + o.Name() + " (" + err.Error() + ")"})
		return out
	}
	var entries []report.Entry
	for i := range answers {
		of := report.Entries(answers[i].Outcome, j.entries)
		entries = append(entries, of...)
		if j.tellErrors && !(j.keepChanges && answers[i].stage.Has(policy.StageMutate|policy.StageGenerate)) { // those are reported with the changes
			out.diags.Add(errorsOf(of, o.Pos)...)
		}
		if !j.keepChanges {
			continue
		}
		changes, err := changesOf(answers[i])
		if err != nil {
			out.diags.Add(diag.Diagnostic{Pos: o.Pos(""), Summary: "failed to write resource " + o.Name() + " (" + err.Error() + ")"})
			continue
		}
		out.changes = append(out.changes, changes...)
	}
	var last []report.Entry
	for i := range deletions {
		of := report.Entries(deletions[i], j.entries)
		last = append(last, of...)
		if j.tellErrors {
			out.diags.Add(errorsOf(of, o.Pos)...)
		}
	}
	out.entries, out.last = j.count(&out.summary, entries), j.count(&out.summary, last)
	return out
}

// count adds the entries to the summary and returns those that are shown.
func (j *evaluate) count(s *report.Summary, entries []report.Entry) []report.Entry {
	for i := range entries {
		if e := &entries[i]; e.Status != policy.StatusSkip || e.Rule.Kind != native.ValidatingRuleKind { // those are not counted
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
	return append([]report.Entry(nil), kept...) // the passes are not kept alive
}

// changesOf is what an answer changes.
func changesOf(a answer) ([]change, error) {
	switch {
	case a.stage.Has(policy.StageMutate):
		c, err := changeOf(a)
		return []change{c}, err
	case a.stage.Has(policy.StageGenerate):
		return generationsOf(a.Outcome)
	}
	return nil, nil
}
