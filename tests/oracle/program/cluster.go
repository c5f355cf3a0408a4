package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// cluster is a snapshot as the API server would have stored it.
type cluster struct {
	objects []runtime.Object
	nodes   []*v1.Node
	placed  []*v1.Pod // those that use a node
	pending *v1.Pod   // the pod to be placed
}

func readCluster(ctx context.Context, asked question) (*cluster, error) {
	found := &cluster{}
	for index, raw := range asked.Objects {
		object, err := readObject(ctx, raw, index)
		if err != nil {
			return nil, err
		}
		found.objects = append(found.objects, object)
		switch typed := object.(type) {
		case *v1.Node:
			found.nodes = append(found.nodes, typed)
		case *v1.Pod:
			found.addPod(typed, asked.Pod)
		}
	}
	if found.pending == nil {
		return nil, fmt.Errorf("no object is the pod %q to be placed", asked.Pod)
	}
	return found, nil
}

func (c *cluster) addPod(pod *v1.Pod, asked string) {
	isFinished := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	switch {
	case pod.Namespace+"/"+pod.Name == asked:
		c.pending = pod
	case pod.Spec.NodeName != "" && !isFinished:
		c.placed = append(c.placed, pod)
	}
}

// readObject decodes an object and sets what the API server would set when it is created.
func readObject(ctx context.Context, raw []byte, index int) (runtime.Object, error) {
	object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(fmt.Sprintf("uid-%d", index)))
	}
	if accessor.GetResourceVersion() == "" {
		accessor.SetResourceVersion("1")
	}
	legacyscheme.Scheme.Default(object)
	if pod, ok := object.(*v1.Pod); ok {
		return admitted(ctx, pod)
	}
	return object, nil
}

// admitted does what the API server does with a new pod beyond defaults: it merges matchLabelKeys into label
// selectors and sets pod-level requests, and refuses what is not valid. The status is kept.
func admitted(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	version := pod.ResourceVersion
	pod.ResourceVersion = ""
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return nil, err
	}
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	if wrong := podregistry.Strategy.Validate(ctx, internal); len(wrong) > 0 {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, wrong.ToAggregate())
	}
	stored := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, stored, nil); err != nil {
		return nil, err
	}
	stored.TypeMeta, stored.Status, stored.ResourceVersion = pod.TypeMeta, pod.Status, version
	return stored, nil
}
