package main

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// preBind bounds the wait for binding conditions, which nobody reports here: the claims are written before it.
const preBind = 100 * time.Millisecond

// reserve lets the plugins reserve the claims of the pod for this node, as before a bind, and returns the status that
// each of its claims has then.
func reserve(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *v1.Pod, node string) (map[string]json.RawMessage, error) {
	if status := profile.RunReservePluginsReserve(ctx, state, pod, node); !status.IsSuccess() {
		return nil, status.AsError()
	}
	bounded, cancel := context.WithTimeout(ctx, preBind)
	defer cancel()
	profile.RunPreBindPlugins(bounded, state, pod, node)
	written := map[string]json.RawMessage{}
	for _, named := range pod.Spec.ResourceClaims {
		if named.ResourceClaimName == nil {
			continue
		}
		claims := profile.ClientSet().ResourceV1().ResourceClaims(pod.Namespace)
		claim, err := claims.Get(ctx, *named.ResourceClaimName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if written[claim.Name], err = json.Marshal(claim.Status); err != nil {
			return nil, err
		}
	}
	return written, nil
}
