package apply

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/sarif"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

// evaluation is a set of policies and the resources on which they are evaluated.
type evaluation struct {
	programs []*policy.Program
	families *compile.Registry // the families of the policies; nil for those of Ephor
	inputs   []source.Input
	// keepAll keeps every entry; otherwise only the entries that the text output shows are kept.
	keepAll bool
	// tellErrors adds a diagnostic for every rule that ends in an error. It is set for output formats without messages, which only count
	// errors.
	tellErrors bool
	// findings creates a finding for every result that the text output shows, and for every error.
	findings bool
	// keepChanges keeps the changes that mutate rules made to the resources.
	keepChanges bool
	// showChanges prints the changes, with the errors of the rules that make them.
	showChanges bool
	entries     report.Options
	progress    *terminal.Progress
	given       *clivalues.Set // nil if the user gave none
	targets     []source.Input // additional objects that rules may look up or change
	parameters  []source.Input // objects that are parameters of rules
	definitions load.CustomKinds
	images      world.Images // none: no registry is queried
	signatures  world.Signatures
	context     clivalues.Context
	payloads    []load.Payload
	// cluster, if set, is the source of the resources, and rules look things up in it; query selects the resources.
	cluster *remote.Cluster
	query   remote.Query
	timing  func(remote.Page) // called for every page; nil if the user did not request it
}

// evaluated holds the results of the evaluation, in the order of the input.
type evaluated struct {
	resources int
	entries   []report.Entry
	changes   []change
	// last holds the entries of policies that are evaluated after all others: those that delete.
	last       []report.Entry
	findings   []sarif.Result
	summary    report.Summary
	diags      diag.List
	exceptions load.Unevaluated
	erring     map[*policy.Program]bool // policies of which a rule ended in an error
	err        error                    // the error that ended the run
	// names are the names of the listed objects, if the user selected objects by name.
	names map[string]bool
}

func (j *evaluated) add(o evaluated) {
	j.resources += o.resources
	j.entries = append(j.entries, o.entries...)
	j.changes = append(j.changes, o.changes...)
	j.last = append(j.last, o.last...)
	j.findings = append(j.findings, o.findings...)
	j.diags = append(j.diags, o.diags...)
	j.exceptions.Add(o.exceptions...)
	j.summary.Pass += o.summary.Pass
	j.summary.Fail += o.summary.Fail
	j.summary.Warn += o.summary.Warn
	j.summary.Error += o.summary.Error
	j.summary.Skip += o.summary.Skip
	if j.err == nil {
		j.err = o.err
	}
	for p := range o.erring {
		j.errs(p)
	}
	for name := range o.names {
		if j.names == nil {
			j.names = map[string]bool{}
		}
		j.names[name] = true
	}
}

// errs notes that a rule of the policy ended in an error.
func (j *evaluated) errs(p *policy.Program) {
	if j.erring == nil {
		j.erring = map[*policy.Program]bool{}
	}
	j.erring[p] = true
}

// batch is a sequence of documents that one worker evaluates together. The worker sends the result to answer.
type batch struct {
	docs   []source.Document
	bytes  int
	page   *remote.Page // a page of objects from a cluster, instead of documents
	answer chan evaluated
}

// batchBytes is the size of a batch. It is large enough to make the cost of passing batches negligible, and small enough to keep all
// workers busy.
const batchBytes = 64 << 10

// evaluateAll reads, evaluates and releases the resources document by document on all processors, so that the size of the
// largest file limits the memory. It collects the results in the order of the input.
func evaluateAll(ctx context.Context, j evaluation) evaluated {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	shared := &workers{evaluation: j, ctx: ctx, evaluator: offline.New(j.programs, j.world(), j.given)}
	shared.evaluator.Names = j.definitions.Names
	if j.cluster != nil {
		shared.evaluator.Cluster = j.cluster
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
				b.answer <- shared.batch(b)
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
			stop() // running evaluations end soon, and their results are ignored
		}
	}
	wg.Wait()
	j.progress.End()
	for _, p := range j.payloads {
		all.add(shared.payload(p))
	}
	all.entries, all.last = append(all.entries, all.last...), nil
	all.diags.Add(shared.evaluator.UnknownNamespaces()...)
	return all
}

// feedFiles emits the resources of the files, batch by batch. Results that need no evaluation go to known.
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

// feedCluster emits the objects of the cluster, page by page. It holds only a few pages in memory at a time.
func (j evaluation) feedCluster(ctx context.Context, emit func(*batch), known func(evaluated)) {
	kinds := map[string]int{}
	for _, k := range j.query.Kinds {
		kinds[k.Kind]++
	}
	seen := map[types.UID]bool{}
	j.cluster.List(ctx, j.query, func(p remote.Page) {
		if j.timing != nil {
			j.timing(p)
		}
		if kinds[p.Kind.Kind] > 1 && p.Kind.Subresource == "" { // several groups serve the kind, as for Event
			p.Objects = slices.DeleteFunc(p.Objects, func(o source.Object) bool {
				uid := (&unstructured.Unstructured{Object: o.Value}).GetUID()
				again := seen[uid]
				seen[uid] = true
				return again
			})
		}
		if len(j.query.Names) > 0 {
			found := evaluated{names: map[string]bool{}}
			for _, o := range p.Objects {
				found.names[o.Name()] = true
			}
			known(found)
		}
		j.progress.Total(len(p.Objects))
		if len(p.Objects) > 0 {
			emit(&batch{page: &p, answer: make(chan evaluated, 1)})
		}
		if p.Err == nil {
			return
		}
		if j.query.Strict {
			known(evaluated{err: p.Err})
			return
		}
		known(evaluated{diags: diag.List{{Severity: diag.Warning, Pos: diag.Position{File: p.Kind.Kind}, Summary: p.Err.Error(), Hint: "these are not evaluated"}}})
	})
}

// size returns the number of documents or objects in the batch.
func (b *batch) size() int {
	if b.page != nil {
		return len(b.page.Objects)
	}
	return len(b.docs)
}

// world returns the data that rules can look up.
func (j evaluation) world() world.Root {
	images := j.images
	if images.Image == nil {
		images = j.context.Images
	}
	given := fixed.New(fixed.Values{
		Now: offline.Now, NamespaceLabels: j.given.Namespaces(), EveryNamespace: true, Objects: j.readObjects, Namespaces: j.readNamespaces, Images: images, Signatures: j.signatures, HTTP: remote.HTTP(),
		ContextResources: func() ([]map[string]any, error) {
			given, err := j.readObjects()
			return slices.Concat(j.context.Resources, given), err
		},
		Parameters: func() ([]map[string]any, error) { return j.read(j.parameters, ""), nil },
	})
	switch {
	case j.cluster == nil:
		return given
	case len(j.targets)+len(j.parameters) == 0:
		return j.cluster.Root
	}
	return remote.WithObjects(given, j.cluster.Root)
}

// readObjects reads all resources at once, as the objects of an imaginary cluster in which rules look things up. It is
// called at the first lookup of a rule; until then each resource is in memory only during its evaluation.
func (j evaluation) readObjects() ([]map[string]any, error) {
	return slices.Concat(j.definitions.Objects, j.given.Objects(), j.read(slices.Concat(j.inputs, j.targets, j.parameters), "")), nil
}

// readNamespaces reads the Namespaces among the resources. Other objects are not kept in memory for them.
func (j evaluation) readNamespaces() ([]map[string]any, error) {
	return slices.Concat(j.given.Objects(), j.read(slices.Concat(j.inputs, j.targets, j.parameters), "Namespace")), nil
}

// read reads objects: those of one kind, or all if it is empty.
func (j evaluation) read(inputs []source.Input, kind string) (out []map[string]any) {
	for _, in := range inputs {
		docs, _ := source.Open(in) // the evaluation of the resources reports mistakes
		for _, d := range docs {
			if kind != "" && !d.MayHold(kind) {
				continue
			}
			objects, _ := d.Decode(source.Floats)
			for _, o := range objects {
				if kind == "" || o.Value["kind"] == kind {
					j.definitions.Scopes.Normalise(o.Value)
					out = append(out, o.Value)
				}
			}
		}
	}
	return out
}
