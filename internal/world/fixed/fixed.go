package fixed

import (
	"math/rand/v2"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// Values are the content of the world.
type Values struct {
	// Now is the time of all evaluations; nil for the machine's clock.
	Now func() time.Time
	// Seed makes random text reproducible; 0 for real randomness.
	Seed uint64
	// NamespaceLabels are labels of namespaces. They have precedence over those of Namespaces among the Objects.
	NamespaceLabels map[string]map[string]string
	// Namespaces returns the Namespaces among the Objects, so that labels do not need all of these; nil to search the Objects. It is called
	// at most once, at the first use.
	Namespaces func() ([]map[string]any, error)
	// EveryNamespace: a namespaced policy may read the Namespace of every object on which it is evaluated.
	EveryNamespace bool
	// Objects returns the content of a simulated cluster; nil for no cluster. It is called at most once, at the first use. The objects must
	// not change afterwards.
	Objects func() ([]map[string]any, error)
	// Served: Kinds also knows the resources of these objects, which policies need that find their targets themselves.
	Served bool
	// Parameters returns the objects that were given as parameters of rules: their kinds are namespaced if the objects have a namespace. It
	// is called at most once; nil for none.
	Parameters func() ([]map[string]any, error)
	// API, Services, Globals, Images and Signatures replace the simulated cluster; nil for its answers, or none.
	API        world.API
	Services   world.Services
	Globals    world.Globals
	Images     world.Images
	Signatures world.Signatures
	// HTTP answers the requests of CEL policies: cluster-wide ones, and also namespaced ones if NamespacedHTTP is set; nil for none.
	HTTP           world.HTTP
	NamespacedHTTP bool
	// ContextResources returns the objects that CEL policies read by resource; nil for none. It is called at most once. Resources takes
	// precedence.
	ContextResources func() ([]map[string]any, error)
	Resources        world.API
}

// New returns the world. It is safe for concurrent use.
func New(v Values) world.Root {
	if v.Now == nil {
		v.Now = time.Now
	}
	var given *cluster
	if v.Objects != nil {
		given = &cluster{objects: v.Objects}
		if v.API == nil {
			v.API = given.call
		}
		if v.Globals == nil {
			v.Globals = globals{given}.read
		}
	}
	if v.Resources == nil {
		if v.ContextResources == nil {
			v.ContextResources = func() ([]map[string]any, error) { return nil, nil }
		}
		v.Resources = contextResources{&cluster{objects: v.ContextResources}}.call
	}
	all := namespaces{labels: v.NamespaceLabels, given: given}
	if v.Namespaces != nil {
		all.given = &cluster{objects: v.Namespaces}
	}
	w := world.World{
		Namespaces: world.Namespaces{Labels: all.labelsOf, Object: all.object},
		Kinds:      world.Kinds{Namespaced: namespaced(v.Parameters)},
		API:        v.API,
		Resources:  v.Resources,
		Images:     v.Images,
		Signatures: v.Signatures,
		Clock:      clock(v.Now),
	}
	if given != nil {
		w.Objects, w.Lists, w.Kinds.Find = given.object, given.query, given.find
		if v.Served {
			w.Kinds.Resource, w.Kinds.Served = given.resource, given.served
		}
	}
	return world.RootFunc(func(r world.Reach) world.World {
		out := w
		out.Rand = random(v.Seed)
		if r.IsCluster() || v.NamespacedHTTP {
			out.HTTP = v.HTTP
		}
		if r.IsCluster() {
			out.Services, out.Globals = v.Services, v.Globals
		}
		out = out.Within(r)
		if v.EveryNamespace {
			out.Namespaces = w.Namespaces
		}
		return out
	})
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// random returns a source of numbers; with a seed, it returns the same numbers in every evaluation.
func random(seed uint64) world.Rand {
	if seed == 0 {
		return global{}
	}
	return seeded{rand.New(rand.NewPCG(seed, seed))}
}

type global struct{}

func (global) Intn(n int) int { return rand.IntN(n) }

type seeded struct{ r *rand.Rand }

func (s seeded) Intn(n int) int { return s.r.IntN(n) }
