package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/webhookconf"
)

// The annotations on the Secret with the key of the paths.
const (
	epochsAnnotation = secretpath.EpochsAnnotation
	// rotateAnnotation requests a new epoch. Its value is the ID of the current epoch, or rotateNow.
	rotateAnnotation = names.Domain + "rotate"
	rotateNow        = "now"
)

// pathSettle is how long the leader waits before it writes a new epoch into configurations, so that all replicas know the epoch. A
// replica that does not know it yet reads it at the first request with the new path.
const pathSettle = 3 * time.Second

// Paths holds the secret segments in the webhook paths of one server. Every replica follows the Secret that holds the key and the
// epochs. The leader writes the webhook configurations, and starts and ends epochs.
type Paths struct {
	flags   PathFlags
	on      bool
	store   *keystore.Store
	manager manager.Manager
	log     *slog.Logger
	Events  event.Recorder // nil for none
	// controller is the controller that reports the events.
	controller string
	// Ours reports whether a webhook calls our server.
	Ours func(admissionv1.WebhookClientConfig) bool
	// Changed is called when configurations may need to be written.
	Changed func()
	// deployment is the Deployment of the server. Without a name there are no rollouts.
	deployment client.ObjectKey
	now        func() time.Time

	guard secretpath.Guard
	wake  *controller.Signal

	mu       sync.Mutex
	secret   *corev1.Secret // the last read version; read-only
	epochs   secretpath.Epochs
	current  *secretpath.Epoch
	previous *secretpath.Epoch
	trouble  string
	made     string // the epoch that this process created when it started
	leaked   string // the epoch that must end because a call may have failed
	asked    string // the epoch whose end this process has requested
	standing []webhookconf.CalledPath
	reported []webhookconf.CalledPath

	rotation secretpath.Rotation // the state of the leader
	plain    time.Time           // the time since which the leader keeps plain paths during a rollout; zero without such paths
	behind   controller.Pause    // of rounds of the leader that ended in a conflict
}

// NewPaths returns the paths of a server. clients are those that it answers, name is the name of the Secret, and deployment the
// Deployment of the server, empty for none.
func NewPaths(f Flags, clients ClientFlags, name, namespace, deployment, reporter string, m manager.Manager, log *slog.Logger) *Paths {
	f.Paths.warn(clients, log)
	p := &Paths{
		behind: conflictPause,
		flags:  f.Paths, on: f.Paths.on(clients), manager: m, log: log, controller: reporter, Changed: func() {}, now: time.Now, wake: &controller.Signal{},
		store:    &keystore.Store{Client: m.GetClient(), Reader: m.GetAPIReader(), Namespace: namespace, Name: name},
		rotation: secretpath.Rotation{Period: f.Paths.rotation, Settle: pathSettle, Overlap: f.Paths.overlap},
	}
	if f.ServerIP == "" {
		p.deployment = client.ObjectKey{Namespace: namespace, Name: deployment}
	}
	p.guard = secretpath.Guard{Overlap: f.Paths.overlap, Now: func() time.Time { return p.now() }, Reread: p.reread}
	return p
}

// Answered returns the server's check of paths.
func (p *Paths) Answered() admission.Paths {
	if p.on {
		return &p.guard
	}
	return secretpath.Open{}
}

// Ready returns the reason why paths cannot be checked yet.
func (p *Paths) Ready() error {
	if p.on && !p.guard.Ready() {
		return errors.New("the key of the webhook paths has not been read yet")
	}
	return nil
}

// load reads the Secret, and creates its missing parts.
func (p *Paths) load(ctx context.Context) error {
	if !p.on {
		return nil
	}
	if _, err := p.store.Load(ctx); err != nil { // after this, the Secret exists
		return err
	}
	var secret corev1.Secret
	if err := p.store.Reader.Get(ctx, p.key(), &secret); err != nil {
		return fmt.Errorf("read the Secret %s: %w", p.key(), err)
	}
	if _, err := secretpath.ParseEpochs(secret.Annotations[epochsAnnotation]); err != nil { // the epochs are missing or damaged
		first := secretpath.Epochs{}.Begin(secretpath.NewID(), p.now())
		if err := p.write(ctx, &secret, first); err != nil {
			return err
		}
		p.mu.Lock()
		p.made = first.Current.ID
		p.mu.Unlock()
		return nil
	}
	p.applySecret(&secret)
	return nil
}

// Begin loads the Secret for the first time. Another replica may do the same concurrently.
func (p *Paths) Begin(ctx context.Context) error {
	var err error
	for range 5 {
		if err = p.load(ctx); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on && p.epochs.Current.ID != p.made {
		// A process ran before this one, and calls may have failed when it ended.
		p.leaked = p.epochs.Current.ID
		p.wake.Fire()
	}
	return nil
}

func (p *Paths) key() client.ObjectKey {
	return client.ObjectKey{Namespace: p.store.Namespace, Name: p.store.Name}
}

// applySecret applies the content of the Secret. It ignores a damaged Secret.
func (p *Paths) applySecret(secret *corev1.Secret) {
	ring, err := keystore.Parse(secret)
	var epochs secretpath.Epochs
	if err == nil {
		epochs, err = secretpath.ParseEpochs(secret.Annotations[epochsAnnotation])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if text := err.Error(); text != p.trouble {
			p.trouble = text
			p.log.Warn("the new key of the webhook paths is not used", "secret", p.key(), "error", err)
		}
		return
	}
	p.trouble, p.secret, p.epochs = "", secret.DeepCopy(), epochs
	p.current, p.previous = secretpath.NewEpoch(ring.Current(), epochs.Current.ID), nil
	retired := false
	if before := epochs.Previous; before != nil {
		p.previous, retired = secretpath.NewEpoch(ring.Current(), before.ID), !before.Retired.IsZero()
	}
	p.guard.Set(p.current, p.previous, retired)
}

// write stores changed epochs. This process applies them at once, because it writes the configurations that contain them.
func (p *Paths) write(ctx context.Context, secret *corev1.Secret, epochs secretpath.Epochs) error {
	next := secret.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	if current, _ := secretpath.ParseEpochs(next.Annotations[epochsAnnotation]); current.Current.ID != epochs.Current.ID {
		delete(next.Annotations, rotateAnnotation)
	}
	next.Annotations[epochsAnnotation] = epochs.String()
	if err := p.store.Client.Update(ctx, next); err != nil {
		return fmt.Errorf("write the epochs of the webhook paths to the Secret %s: %w", p.key(), err)
	}
	p.applySecret(next)
	return nil
}

// rereadTimeout limits how long a request with an unknown segment waits.
const rereadTimeout = time.Second

// reread reads the Secret from the API server, since the cache may be outdated.
func (p *Paths) reread() {
	ctx, cancel := context.WithTimeout(context.Background(), rereadTimeout)
	defer cancel()
	var secret corev1.Secret
	if err := p.store.Reader.Get(ctx, p.key(), &secret); err != nil {
		p.log.Debug("the key of the webhook paths cannot be read again", "secret", p.key(), "error", err)
		return
	}
	p.applySecret(&secret)
}

// Handler follows the Secret.
func (p *Paths) Handler() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if s, ok := obj.(*corev1.Secret); ok && p.on && s.Name == p.store.Name {
			p.applySecret(s)
			p.Changed()
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) }, DeleteFunc: func(obj any) {
		if s, ok := intake.Deleted(obj).(*corev1.Secret); ok && p.on && s.Name == p.store.Name {
			p.mu.Lock()
			p.secret = nil
			p.mu.Unlock()
			p.wake.Fire() // the Secret is created again
		}
	}}
}

// Configurations returns the event handler for both kinds of webhook configurations, which also calls next.
func (p *Paths) Configurations(next toolscache.ResourceEventHandlerFuncs) toolscache.ResourceEventHandler {
	look := func() {
		if p.on {
			p.stand()
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { look(); next.OnAdd(obj, false) },
		UpdateFunc: func(old, obj any) { look(); next.OnUpdate(old, obj) },
		DeleteFunc: func(obj any) { look(); next.OnDelete(obj) },
	}
}

// stored returns the cached configurations.
func (p *Paths) stored() ([]client.Object, error) {
	return webhookconf.List(context.Background(), p.manager.GetCache())
}

// stand updates the paths in use from the cached configurations.
func (p *Paths) stand() {
	all, err := p.stored()
	if err != nil {
		p.log.Error("the current webhook paths cannot be read", "error", err)
		return
	}
	var paths []string
	var plain []webhookconf.CalledPath
	for _, called := range webhookconf.CalledPaths(p.Ours, all...) {
		paths = append(paths, called.Path)
		if _, _, secret := secretpath.Split(called.Path); !secret {
			plain = append(plain, called)
		}
	}
	p.mu.Lock()
	p.standing = plain
	p.mu.Unlock()
	p.guard.Stand(paths)
	p.wake.Fire()
}
