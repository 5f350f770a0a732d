package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ephor-dev/ephor/internal/admission"
	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/keystore"
	"github.com/ephor-dev/ephor/internal/lifecycle"
	"github.com/ephor-dev/ephor/internal/secretpath"
	"github.com/ephor-dev/ephor/internal/webhookconf"
)

// The annotations on the Secret with the key of the paths.
const (
	epochsAnnotation = secretpath.EpochsAnnotation
	// rotateAnnotation asks for a new epoch: its value is the ID of the current one, or rotateNow.
	rotateAnnotation = "ephor.dev/rotate"
	rotateNow        = "now"
)

// pathFlags say whether webhook paths carry a secret segment, and for how long one is good.
type pathFlags struct {
	secret            string
	rotation, overlap time.Duration
}

// The values of --webhookSecretPaths.
const (
	secretPathsOn     = "true"
	secretPathsOff    = "false"
	secretPathsAlways = "always"
)

func (f *pathFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.secret, "webhookSecretPaths", secretPathsOn, "put a secret segment into the paths of the webhooks, and answer no other path: true (unless the API server has to show a certificate, --client-ca-file), always, or false")
	fs.DurationVar(&f.rotation, "webhookPathRotation", time.Hour, "how often the secret segments are replaced, besides after every outage")
	fs.DurationVar(&f.overlap, "webhookPathOverlap", time.Minute, "how long the segments of before are still answered after the webhook configurations carry new ones")
}

func (f *pathFlags) complete() error {
	var errs []error
	if !slices.Contains([]string{secretPathsOn, secretPathsOff, secretPathsAlways}, f.secret) {
		errs = append(errs, fmt.Errorf("--webhookSecretPaths: %q is none of true, false and always", f.secret))
	}
	if f.overlap < pathSettle || f.rotation < 2*f.overlap {
		errs = append(errs, fmt.Errorf("--webhookPathOverlap must be at least %s, --webhookPathRotation at least twice as long", pathSettle))
	}
	return errors.Join(errs...)
}

// pathSettle is how long the configurations wait for all replicas to hear of a new epoch. One that has not heard of it then
// reads it when the first request comes.
const pathSettle = 3 * time.Second

// rolloutPatience is how long plain paths are kept during a rollout, and rolloutLook how often that is looked at.
const (
	rolloutPatience = 10 * time.Minute
	rolloutLook     = 2 * time.Second
)

// secretPaths are the secret segments in the webhook paths of one server: every replica follows the Secret that holds the
// key and the epochs, the one that writes the webhook configurations begins and ends epochs.
type secretPaths struct {
	flags   pathFlags
	on      bool
	store   *keystore.Store
	manager manager.Manager
	log     *slog.Logger
	events  event.Recorder // nil for none
	// controller reports the events.
	controller string
	// ours reports whether a webhook asks our server.
	ours func(admissionv1.WebhookClientConfig) bool
	// changed is called when configurations may have to be written.
	changed func()
	// deployment is that of the server; without a name there are no rollouts.
	deployment client.ObjectKey
	now        func() time.Time

	guard secretpath.Guard
	wake  lifecycle.Trigger

	mu       sync.Mutex
	secret   *corev1.Secret // as it was last seen; not changed
	epochs   secretpath.Epochs
	current  *secretpath.Epoch
	previous *secretpath.Epoch
	trouble  string
	made     string // the epoch that this process made in the beginning
	leaked   string // the epoch that is to end, as this process found
	asked    string // the epoch whose end this process has asked for
	standing []webhookconf.PlainPath
	told     []webhookconf.PlainPath

	rotation secretpath.Rotation // of the process that leads
	plain    time.Time           // since when it keeps plain paths during a rollout
}

// newSecretPaths returns the paths of a server. on says whether they carry segments.
func newSecretPaths(f certificateFlags, on bool, name string, e env, controller string, m manager.Manager, log *slog.Logger) *secretPaths {
	p := &secretPaths{
		flags: f.paths, on: on, manager: m, log: log, controller: controller, changed: func() {}, now: time.Now, wake: lifecycle.NewTrigger(),
		store:    &keystore.Store{Client: m.GetClient(), Reader: m.GetAPIReader(), Namespace: e.namespace, Name: name},
		rotation: secretpath.Rotation{Period: f.paths.rotation, Settle: pathSettle, Overlap: f.paths.overlap},
	}
	if f.serverIP == "" {
		p.deployment = client.ObjectKey{Namespace: e.namespace, Name: e.deployment}
	}
	p.guard = secretpath.Guard{Overlap: f.paths.overlap, Now: func() time.Time { return p.now() }, Reread: p.reread}
	return p
}

// paths is what the server asks.
func (p *secretPaths) paths() admission.Paths {
	if p.on {
		return &p.guard
	}
	return secretpath.Open{}
}

// ready says why paths cannot be checked yet.
func (p *secretPaths) ready() error {
	if p.on && !p.guard.Ready() {
		return errors.New("the key of the webhook paths has not been read yet")
	}
	return nil
}

// load reads the Secret, and makes what is missing of it.
func (p *secretPaths) load(ctx context.Context) error {
	if !p.on {
		return nil
	}
	if _, err := p.store.Load(ctx); err != nil { // it exists now
		return err
	}
	var secret corev1.Secret
	if err := p.store.Reader.Get(ctx, p.key(), &secret); err != nil {
		return fmt.Errorf("read the Secret %s: %w", p.key(), err)
	}
	if _, err := secretpath.ParseEpochs(secret.Annotations[epochsAnnotation]); err != nil { // none, or damaged
		first := secretpath.Epochs{}.Begin(secretpath.NewID(), p.now())
		if err := p.write(ctx, &secret, first); err != nil {
			return err
		}
		p.mu.Lock()
		p.made = first.Current.ID
		p.mu.Unlock()
		return nil
	}
	p.take(&secret)
	return nil
}

// begin loads the Secret for the first time. Another replica may do so at the same moment.
func (p *secretPaths) begin(ctx context.Context) error {
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
		// There was another process before, whose end may have made calls fail.
		p.leaked = p.epochs.Current.ID
		p.wake.Fire()
	}
	return nil
}

func (p *secretPaths) key() client.ObjectKey {
	return client.ObjectKey{Namespace: p.store.Namespace, Name: p.store.Name}
}

// take takes the Secret over. One that is damaged changes nothing.
func (p *secretPaths) take(secret *corev1.Secret) {
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
			p.log.Warn("the key of the webhook paths is not taken over", "secret", p.key(), "error", err)
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

// write stores other epochs. The answer is taken over at once: the configurations must not be written before this process
// knows what they carry.
func (p *secretPaths) write(ctx context.Context, secret *corev1.Secret, epochs secretpath.Epochs) error {
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
	p.take(next)
	return nil
}

// rereadTimeout bounds what requests with an unknown segment wait for.
const rereadTimeout = time.Second

// reread reads the Secret past the cache, which may be late.
func (p *secretPaths) reread() {
	ctx, cancel := context.WithTimeout(context.Background(), rereadTimeout)
	defer cancel()
	var secret corev1.Secret
	if err := p.store.Reader.Get(ctx, p.key(), &secret); err != nil {
		p.log.Debug("the key of the webhook paths cannot be read again", "secret", p.key(), "error", err)
		return
	}
	p.take(&secret)
}

// handler follows the Secret.
func (p *secretPaths) handler() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if s, ok := obj.(*corev1.Secret); ok && p.on && s.Name == p.store.Name {
			p.take(s)
			p.changed()
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) }, DeleteFunc: func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*corev1.Secret); ok && p.on && s.Name == p.store.Name {
			p.mu.Lock()
			p.secret = nil
			p.mu.Unlock()
			p.wake.Fire() // it is made anew
		}
	}}
}

// configurations is the handler for both kinds of webhook configurations, before next.
func (p *secretPaths) configurations(next toolscache.ResourceEventHandlerFuncs) toolscache.ResourceEventHandler {
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

// stored are the cached configurations.
func (p *secretPaths) stored() (all []client.Object, err error) {
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	reader := p.manager.GetCache()
	if err := errors.Join(reader.List(context.Background(), &validating), reader.List(context.Background(), &mutating)); err != nil {
		return nil, fmt.Errorf("list the webhook configurations: %w", err)
	}
	for i := range validating.Items {
		all = append(all, &validating.Items[i])
	}
	for i := range mutating.Items {
		all = append(all, &mutating.Items[i])
	}
	return all, nil
}

// stand looks which plain paths stand in the cached configurations.
func (p *secretPaths) stand() {
	all, err := p.stored()
	if err != nil {
		p.log.Error("it is not known which webhook paths stand", "error", err)
		return
	}
	standing := webhookconf.PlainPaths(p.ours, all...)
	var paths []string
	for _, s := range standing {
		paths = append(paths, s.Path)
	}
	p.mu.Lock()
	p.standing = standing
	p.mu.Unlock()
	p.guard.Stand(paths)
	p.wake.Fire()
}

// failed notes that a call may have failed, so that the API server showed the URL to a requester: the epoch ends soon.
func (p *secretPaths) failed() {
	if !p.on {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaked != p.epochs.Current.ID {
		p.leaked = p.epochs.Current.ID
		p.wake.Fire()
	}
}

// plainReason is the reason of the events that report plain paths.
const plainReason = "PlainWebhookPath"

// watch is what every replica does: it makes the Secret where it is missing, asks for the end of an epoch that was revealed
// to a requester, and reports plain paths.
func (p *secretPaths) watch() lifecycle.Task {
	return lifecycle.Task{Name: "webhook-paths", Wake: p.wake, Once: func(ctx context.Context) (time.Duration, error) {
		if !p.on {
			return 0, nil
		}
		p.mu.Lock()
		missing, current, leaked, asked, standing, told := p.secret == nil, p.epochs.Current.ID, p.leaked, p.asked, p.standing, p.told
		p.mu.Unlock()
		if missing {
			if err := p.load(ctx); err != nil && !apierrors.IsConflict(err) {
				return 0, err
			}
		}
		if leaked != "" && leaked == current && asked != current {
			if err := p.ask(ctx, current); err != nil {
				return 0, err
			}
		}
		for _, s := range standing {
			if p.events == nil || slices.Contains(told, s) {
				continue
			}
			p.log.Warn("a webhook configuration has a path without a secret segment: it is answered until the configuration is written anew", "configuration", s.Configuration, "path", s.Path)
			p.events.Record(event.Event{
				Regarding: event.Reference{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: s.Kind, Name: s.Configuration},
				Type:      event.Warning, Reason: plainReason, Action: event.None, Controller: p.controller,
				Note: fmt.Sprintf("the path %s has no secret segment: requests there are answered for every client until this configuration is written again, and %s longer",
					s.Path, p.flags.overlap),
			})
		}
		p.mu.Lock()
		p.told = standing
		p.mu.Unlock()
		return 0, nil
	}}
}

// ask asks the process that leads for the end of an epoch.
func (p *secretPaths) ask(ctx context.Context, epoch string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.store.Namespace, Name: p.store.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, rotateAnnotation, epoch)
	if err := p.manager.GetClient().Patch(ctx, secret, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("ask for new webhook paths in the Secret %s: %w", p.key(), err)
	}
	p.mu.Lock()
	p.asked = epoch
	p.mu.Unlock()
	return nil
}

// term is run once in each term of leading. The last leader may have ended without a word.
func (p *secretPaths) term() lifecycle.Task {
	return lifecycle.Task{Name: "webhook-paths-term", Wake: lifecycle.NewTrigger(), Once: func(context.Context) (time.Duration, error) {
		p.mu.Lock()
		fresh := p.epochs.Current.ID == p.made
		p.mu.Unlock()
		if !fresh {
			p.failed()
		}
		return 0, nil
	}}
}

// writing is what the configurations that are about to be written carry.
type writing struct {
	// path makes the paths; nil for plain ones.
	path func(plain string) string
	// retires is the ID of the epoch that ends when they are written; empty for none.
	retires string
	// wait is when to look again.
	wait time.Duration
}

// before begins or ends an epoch where that is due, and returns what the configurations have to carry. Only the process
// that leads calls it.
func (p *secretPaths) before(ctx context.Context) (writing, error) {
	if !p.on {
		return writing{}, nil
	}
	p.mu.Lock()
	secret, epochs, current, previous, standing := p.secret, p.epochs, p.current, p.previous, len(p.standing) > 0
	p.mu.Unlock()
	if secret == nil {
		return writing{}, errors.New("the key of the webhook paths is not known")
	}
	now := p.now()
	if standing && p.keepPlain(ctx, now) {
		return writing{wait: rolloutLook}, nil
	}
	asked := secret.Annotations[rotateAnnotation]
	step := p.rotation.Next(epochs, asked == rotateNow || asked == epochs.Current.ID, now)
	switch {
	case step.Begin:
		if err := p.write(ctx, secret, epochs.Begin(secretpath.NewID(), now)); err != nil {
			return writing{}, err
		}
		p.log.Info("new webhook paths begin", "asked", asked != "")
		return writing{path: current.Path, wait: pathSettle}, nil
	case step.End:
		if err := p.write(ctx, secret, epochs.End()); err != nil {
			return writing{}, err
		}
		return writing{path: current.Path, wait: time.Millisecond}, nil
	case step.Previous:
		return writing{path: previous.Path, wait: step.Wait}, nil
	case step.Retire:
		return writing{path: current.Path, retires: epochs.Previous.ID, wait: step.Wait}, nil
	}
	return writing{path: current.Path, wait: step.Wait}, nil
}

// after is called when all configurations are written. Until then the previous epoch is answered, however long it takes.
func (p *secretPaths) after(ctx context.Context, w writing) error {
	if w.retires == "" {
		return nil
	}
	p.mu.Lock()
	secret, epochs := p.secret, p.epochs
	p.mu.Unlock()
	if secret == nil || epochs.Previous == nil || epochs.Previous.ID != w.retires || !epochs.Previous.Retired.IsZero() {
		return nil
	}
	return p.write(ctx, secret, epochs.Retire(p.now()))
}

// round writes the configurations by way of write, with the paths that are in force, and moves the epochs on. Nothing is
// written while the cluster is unlocked.
func (p *secretPaths) round(
	ctx context.Context, u *unlocked, write func(context.Context, func(string) string) (written bool, again time.Duration, err error),
) (time.Duration, error) {
	left := u.left()
	if left > 0 {
		if !p.on || p.present() {
			return left, nil
		}
		// There is no configuration that carries an epoch, and none ends less than in other times.
		write = func(context.Context, func(string) string) (bool, time.Duration, error) { return true, left, nil }
	}
	w, err := p.before(ctx)
	if apierrors.IsConflict(err) {
		return retryConflict, nil
	}
	if err != nil {
		return 0, err
	}
	written, again, err := write(ctx, w.path)
	if written {
		switch failed := p.after(ctx, w); {
		case apierrors.IsConflict(failed):
			again = retryConflict
		case failed != nil:
			err = errors.Join(err, failed)
		}
	}
	return sooner(again, w.wait), err
}

// present reports whether there is a webhook configuration that asks our server.
func (p *secretPaths) present() bool {
	all, err := p.stored()
	return err != nil || slices.ContainsFunc(all, func(o client.Object) bool { return webhookconf.Asks(o, p.ours) })
}

// keepPlain reports whether configurations with plain paths have to stay so for now: the Deployment is being rolled out,
// and Pods of before, which know plain paths only, still answer some of the requests.
func (p *secretPaths) keepPlain(ctx context.Context, now time.Time) bool {
	if p.deployment.Name == "" {
		return false
	}
	if p.plain.IsZero() {
		p.plain = now
	}
	if now.Sub(p.plain) > rolloutPatience {
		return false
	}
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if err := p.store.Reader.Get(ctx, p.deployment, d); err != nil {
		return false // there is none, or it is not known: paths that are secret come first
	}
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(d.Object, fields...)
		return n
	}
	old := number("status", "replicas") > number("status", "updatedReplicas")
	return old || number("status", "observedGeneration") < d.GetGeneration()
}

// warnOpen warns of a server that answers every client.
func warnOpen(f pathFlags, clientCA string, log *slog.Logger) {
	if strings.EqualFold(f.secret, secretPathsOff) && clientCA == "" {
		log.Warn("reviews are answered for every client: --webhookSecretPaths=false without --client-ca-file")
	}
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
