package fixed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ephor-dev/ephor/internal/world"
)

// Values are what the world holds.
type Values struct {
	// Now is the time of all evaluations; nil for the machine's clock.
	Now func() time.Time
	// Seed makes random text reproducible; 0 for really random text.
	Seed uint64
	// NamespaceLabels are the labels of the namespaces that are known.
	NamespaceLabels map[string]map[string]string
	// EveryNamespace: a namespaced policy may read the Namespaces of all objects that it is evaluated on.
	EveryNamespace bool
	// Objects are all that a made-up cluster holds; nil for no cluster. It is called at most once, when the cluster is
	// first asked. They must not change afterwards.
	Objects func() ([]map[string]any, error)
	// Parameters are objects among them that were given as parameters of rules: their kinds are in namespaces where they are.
	// It is called at most once; nil for none.
	Parameters func() ([]map[string]any, error)
	// API, Services, Globals, Images and Signatures answer instead of the made-up cluster; nil for its answers, or none.
	API        world.API
	Services   world.Services
	Globals    world.Globals
	Images     world.Images
	Signatures world.Signatures
	// HTTP answers the requests of CEL policies: those of the cluster, and namespaced ones where NamespacedHTTP is set; nil for none.
	HTTP           world.HTTP
	NamespacedHTTP bool
	// ContextResources are the objects that CEL policies read by resource; nil for none. It is called at most once. Where
	// Resources is set, that answers instead.
	ContextResources func() ([]map[string]any, error)
	Resources        world.API
}

// New makes the world. It is safe for all goroutines.
func New(v Values) world.Root {
	if v.Now == nil {
		v.Now = time.Now
	}
	var given *cluster
	if v.Objects != nil {
		given = &cluster{objects: v.Objects}
		if v.API == nil {
			v.API = given
		}
		if v.Globals == nil {
			v.Globals = globals{given}
		}
	}
	if v.Resources == nil {
		if v.ContextResources == nil {
			v.ContextResources = func() ([]map[string]any, error) { return nil, nil }
		}
		v.Resources = contextResources{&cluster{objects: v.ContextResources}}
	}
	scopes := newScopes(v.Parameters)
	return world.RootFunc(func(r world.Reach) world.World {
		w := world.World{
			Namespaces: namespaces{labels: v.NamespaceLabels, reach: r, every: v.EveryNamespace, given: given},
			Kinds:      scopes,
			API:        world.Confine(r, v.API),
			Images:     world.ConfineImages(r, v.Images),
			Signatures: world.ConfineSignatures(r, v.Signatures),
			Clock:      clock(v.Now),
			Rand:       random(v.Seed),
		}
		if given != nil {
			w.Objects, w.Lists = objects{given, r}, objects{given, r}
		}
		w.Resources = world.Confine(r, v.Resources)
		if r.IsCluster() || v.NamespacedHTTP {
			w.HTTP = v.HTTP
		}
		if r.IsCluster() {
			w.Services, w.Globals = v.Services, v.Globals
		}
		return w
	})
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// random yields numbers; a seeded one yields the same numbers to every evaluation.
func random(seed uint64) world.Rand {
	if seed == 0 {
		return global{}
	}
	return seeded{rand.New(rand.NewPCG(seed, seed))}
}

type global struct{}

func (global) Intn(n int) int { return rand.IntN(n) }

type namespaces struct {
	labels map[string]map[string]string
	reach  world.Reach
	every  bool     // policies of other namespaces ask, too
	given  *cluster // nil without a made-up cluster
}

// Labels returns the labels that were given for the namespace, none when none were.
func (n namespaces) Labels(_ context.Context, namespace string) (map[string]string, error) {
	if !n.every && !n.reach.Allows(namespace) {
		return nil, fmt.Errorf("namespace %s is out of the policy's reach: %w", namespace, world.ErrUnavailable)
	}
	return n.labels[namespace], nil
}

type seeded struct{ r *rand.Rand }

func (s seeded) Intn(n int) int { return s.r.IntN(n) }
