package unlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/webhookconf"
)

// SecretName is the Secret that stores the configurations while the cluster is unlocked.
const SecretName = "ephor-unlocked-webhooks"

// Installation is the installation that is unlocked.
type Installation struct {
	Client client.Client
	// Namespace and ConfigMap are the names of the installation's namespace and main ConfigMap; both are `kyverno` by default.
	Namespace, ConfigMap string
	Now                  func() time.Time
	// Watch is how long Open checks that the configurations stay deleted; zero for no check.
	Watch time.Duration
}

// Report says what was done.
type Report struct {
	Until time.Time
	// Configurations are the names of the configurations that were deleted or restored.
	Configurations []string
	// Present are the configurations that already existed when the others were restored.
	Present []string
	// Made: the ConfigMap did not exist. Either it was lost, or the installation reads another one and is not unlocked.
	Made bool
	// CopyStays: the copy could not be deleted, because the restored webhooks denied it.
	CopyStays bool
}

// Open unlocks the cluster for a time. The report says what was done even when there is an error.
//
// The order matters: first the note, so that no controller undoes the rest; then the copy; then the deletion. If our own webhooks
// prevent the note or the copy, the configurations are deleted first, and the note and the copy are written right after that.
func (in *Installation) Open(ctx context.Context, lasting time.Duration) (Report, error) {
	report := Report{Until: in.Now().UTC().Add(lasting).Truncate(time.Second)}
	found, err := webhookconf.List(ctx, in.Client)
	if err != nil {
		return report, err
	}
	noted := in.recordTime(ctx, &report)
	kept := noted
	if noted == nil {
		kept = in.storeConfigurations(ctx, found)
	}
	if noted != nil && !inTheWay(noted) {
		return report, noted
	}
	if kept != nil && !inTheWay(kept) {
		return report, kept
	}
	if err := in.remove(ctx, found, &report); err != nil {
		return report, err
	}
	if noted != nil {
		if err := in.recordTime(ctx, &report); err != nil {
			return report, lost(found, err)
		}
	}
	if kept != nil {
		if err := in.storeConfigurations(ctx, found); err != nil {
			return report, lost(found, err)
		}
	}
	return report, in.guard(ctx, &report)
}

// inTheWay reports whether a write failed because of webhooks, ours or those of others.
func inTheWay(err error) bool {
	// The API server reports a failed webhook with an internal error, and a denial with the status that the webhook chose.
	return apierrors.IsInternalError(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || errors.Is(err, context.DeadlineExceeded)
}

// Lost is the error when the configurations are deleted and the cluster holds no copy of them. The error itself holds them.
type Lost struct {
	Configurations []client.Object
	Err            error
}

func (l *Lost) Error() string {
	return fmt.Sprintf("the configurations are deleted, but could not be noted or kept: %v; a running controller makes them again", l.Err)
}

func (l *Lost) Unwrap() error { return l.Err }

func lost(found []client.Object, err error) error { return &Lost{Configurations: found, Err: err} }

// recordTime writes the time into the annotation of the ConfigMap. It creates a missing ConfigMap, but never its namespace.
func (in *Installation) recordTime(ctx context.Context, report *Report) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: in.ConfigMap}}
	note := map[string]string{Annotation: report.Until.Format(time.RFC3339)}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": note}})
	if err != nil {
		return err
	}
	err = in.Client.Patch(ctx, cm, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		cm.Annotations = note
		err = in.Client.Create(ctx, cm)
		report.Made = err == nil
	}
	if err != nil {
		return fmt.Errorf("note the time on the ConfigMap %s/%s: %w", in.Namespace, in.ConfigMap, err)
	}
	return nil
}

// storeConfigurations stores the configurations. It preserves those stored earlier, since fewer may exist now.
func (in *Installation) storeConfigurations(ctx context.Context, found []client.Object) error {
	if len(found) == 0 {
		return nil
	}
	data := map[string][]byte{}
	for _, o := range found {
		key, packed, err := pack(o)
		if err != nil {
			return err
		}
		data[key] = packed
	}
	stored := &corev1.Secret{}
	err := in.Client.Get(ctx, in.secret(), stored)
	switch {
	case apierrors.IsNotFound(err):
		err = in.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: in.Namespace, Name: SecretName, Labels: map[string]string{"app.kubernetes.io/part-of": "kyverno"},
			},
			Data: data,
		})
	case err == nil:
		if stored.Data == nil {
			stored.Data = map[string][]byte{}
		}
		maps.Copy(stored.Data, data)
		err = in.Client.Update(ctx, stored)
	}
	if err != nil {
		return fmt.Errorf("keep the configurations in the Secret %s/%s: %w", in.Namespace, SecretName, err)
	}
	return nil
}

func (in *Installation) secret() client.ObjectKey {
	return client.ObjectKey{Namespace: in.Namespace, Name: SecretName}
}

func (in *Installation) remove(ctx context.Context, list []client.Object, report *Report) error {
	for _, o := range list {
		if err := client.IgnoreNotFound(in.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("delete the webhook configuration %s: %w", o.GetName(), err)
		}
		if !slices.Contains(report.Configurations, o.GetName()) {
			report.Configurations = append(report.Configurations, o.GetName())
		}
	}
	return nil
}

// guard deletes configurations that a controller writes before it has seen the annotation.
func (in *Installation) guard(ctx context.Context, report *Report) error {
	for end := in.Now().Add(in.Watch); in.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
		again, err := webhookconf.List(ctx, in.Client)
		if err != nil {
			return err
		}
		if err := in.remove(ctx, again, report); err != nil {
			return err
		}
	}
	return nil
}

// Close restores the configurations and locks the cluster again. It needs no controller; a running controller updates the restored
// configurations.
func (in *Installation) Close(ctx context.Context) (Report, error) {
	var report Report
	stored := &corev1.Secret{}
	switch err := in.Client.Get(ctx, in.secret(), stored); {
	case apierrors.IsNotFound(err):
		stored = nil
	case err != nil:
		return report, fmt.Errorf("read the Secret %s/%s: %w", in.Namespace, SecretName, err)
	}
	var objects []client.Object
	if stored != nil {
		for _, key := range slices.Sorted(maps.Keys(stored.Data)) {
			o, err := unpack(key, stored.Data[key])
			if err == nil && o.GetLabels()[webhookconf.ManagedLabel] != webhookconf.ManagedValue {
				err = fmt.Errorf("the key %s holds a configuration that is not ours", key)
			}
			if err != nil {
				return report, fmt.Errorf("the Secret %s/%s: %w", in.Namespace, SecretName, err)
			}
			objects = append(objects, o)
		}
	}
	if err := in.repath(ctx, objects); err != nil {
		return report, err
	}
	// The annotation is removed first: the restored webhooks may deny it.
	if err := in.erase(ctx); err != nil {
		return report, err
	}
	for _, o := range objects {
		switch err := in.Client.Create(ctx, o); {
		case apierrors.IsAlreadyExists(err):
			report.Present = append(report.Present, o.GetName())
		case err != nil:
			return report, fmt.Errorf("create the webhook configuration %s: %w (the Secret %s/%s still holds it)", o.GetName(), err, in.Namespace, SecretName)
		default:
			report.Configurations = append(report.Configurations, o.GetName())
		}
	}
	if stored != nil {
		switch err := client.IgnoreNotFound(in.Client.Delete(ctx, stored)); {
		case err != nil && inTheWay(err):
			report.CopyStays = true // the cluster is locked as before; the remaining copy does no harm
		case err != nil:
			return report, fmt.Errorf("delete the Secret %s/%s: %w", in.Namespace, SecretName, err)
		}
	}
	return report, nil
}

// erase removes the note.
func (in *Installation) erase(ctx context.Context) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: in.ConfigMap}}
	patch := []byte(`{"metadata":{"annotations":{"` + Annotation + `":null}}}`)
	if err := client.IgnoreNotFound(in.Client.Patch(ctx, cm, client.RawPatch(types.MergePatchType, patch))); err != nil {
		return fmt.Errorf("remove the note from the ConfigMap %s/%s: %w", in.Namespace, in.ConfigMap, err)
	}
	return nil
}
