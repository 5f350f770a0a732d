package apply

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ephor-dev/ephor/internal/cli/load"
	"github.com/ephor-dev/ephor/internal/cli/offline"
	"github.com/ephor-dev/ephor/internal/cli/remote"
	"github.com/ephor-dev/ephor/internal/cli/sarif"
	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/clivalues"
	"github.com/ephor-dev/ephor/internal/diag"
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
	// findings makes a finding of every result that the text output shows, and of every error.
	findings bool
	// keepChanges keeps what mutate rules made of the resources.
	keepChanges bool
	entries     report.Options
	progress    *terminal.Progress
	given       *clivalues.Set // nil when nothing was given
	targets     []source.Input // objects beside the resources that rules may look up or change
	parameters  []source.Input // those that are parameters of rules
	definitions load.CustomKinds
	images      world.Images // nil: registries are not asked
	signatures  world.Signatures
	context     clivalues.Context
	payloads    []load.Payload
	// cluster, when set, is where the resources are from, and where rules look things up; query says which ones.
	cluster *remote.Cluster
	query   remote.Query
	timing  func(remote.Page) // is called for every page; nil if not requested
}

// evaluated is what the evaluation gave, in the order of the input.
type evaluated struct {
	resources int
	entries   []report.Entry
	changes   []change
	// last are the entries of the policies that are asked after all others: those that delete.
	last     []report.Entry
	findings []sarif.Result
	summary  report.Summary
	diags    diag.List
	err      error // why the run is over
	// names are those of the objects that were listed, where names were asked for.
	names map[string]bool
}

func (j *evaluated) add(o evaluated) {
	j.resources += o.resources
	j.entries = append(j.entries, o.entries...)
	j.changes = append(j.changes, o.changes...)
	j.last = append(j.last, o.last...)
	j.findings = append(j.findings, o.findings...)
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
	page   *remote.Page // of a cluster, instead of documents
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
			stop() // what is under way ends soon, and is not looked at
		}
	}
	wg.Wait()
	j.progress.End()
	for _, p := range j.payloads {
		all.add(shared.payload(p))
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
	for _, k := range j.query.Kinds {
		kinds[k.Kind]++
	}
	seen := map[types.UID]bool{}
	j.cluster.List(ctx, j.query, func(p remote.Page) {
		if j.timing != nil {
			j.timing(p)
		}
		if kinds[p.Kind.Kind] > 1 && p.Kind.Subresource == "" { // one kind in several groups, such as Event
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

// size is how many documents or objects the batch holds.
func (b *batch) size() int {
	if b.page != nil {
		return len(b.page.Objects)
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
		Now: offline.Now, NamespaceLabels: j.given.Namespaces(), EveryNamespace: true, Objects: j.readObjects, Images: images, Signatures: j.signatures, HTTP: remote.HTTP(),
		ContextResources: func() ([]map[string]any, error) { return j.context.Resources, nil },
		Parameters:       func() ([]map[string]any, error) { return j.read(j.parameters), nil },
	})
	switch {
	case j.cluster == nil:
		return given
	case len(j.targets)+len(j.parameters) == 0:
		return j.cluster.Root
	}
	return remote.WithObjects(given, j.cluster.Root)
}

// readObjects reads all resources at once: the made-up cluster in which rules look things up. It is called when the first
// rule does; until then resources are only held while they are evaluated.
func (j evaluation) readObjects() ([]map[string]any, error) {
	return slices.Concat(j.definitions.Objects, j.given.Objects(), j.read(slices.Concat(j.inputs, j.targets, j.parameters))), nil
}

func (j evaluation) read(inputs []source.Input) (out []map[string]any) {
	for _, in := range inputs {
		docs, _ := source.Open(in) // mistakes are reported where the resources are evaluated
		for _, d := range docs {
			objects, _ := d.Decode(source.Floats)
			for _, o := range objects {
				j.definitions.Scopes.Normalise(o.Value)
				out = append(out, o.Value)
			}
		}
	}
	return out
}
