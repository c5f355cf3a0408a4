package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/featuregate"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// filter asks the plugins about every node, in the order of kube-scheduler, and for what else the question wants.
func filter(ctx context.Context, asked *cluster, wanted question) (answer, error) {
	scored := wanted.Score
	profile, err := defaultProfile(ctx, asked, scored)
	if err != nil {
		return answer{}, err
	}
	given := answer{Feasible: []string{}, Refused: map[string]refusal{}}
	state := framework.NewCycleState()
	only, status, _ := profile.RunPreFilterPlugins(ctx, state, asked.pending)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return answer{}, status.AsError()
		}
		for _, node := range asked.nodes {
			given.Refused[node.Name] = reasonOf(status)
		}
		return given, nil
	}
	infos, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return answer{}, err
	}
	feasible := []fwk.NodeInfo{}
	for _, info := range infos {
		name := info.Node().Name
		if !only.AllNodes() && !only.NodeNames.Has(name) {
			given.Refused[name] = refusal{Plugin: "PreFilter", Reason: "not among the nodes that a PreFilter plugin selects"}
			continue
		}
		status := profile.RunFilterPlugins(ctx, state, asked.pending, info)
		switch {
		case status.IsSuccess():
			given.Feasible = append(given.Feasible, name)
			feasible = append(feasible, info)
		case status.IsRejected():
			given.Refused[name] = reasonOf(status)
		default:
			return answer{}, fmt.Errorf("node %s: %w", name, status.AsError())
		}
	}
	sort.Strings(given.Feasible)
	if scored != nil {
		given.Scores, err = score(ctx, profile, state, asked, feasible)
	}
	if wanted.Reserve && len(given.Feasible) > 0 && err == nil {
		given.Claims, err = reserve(ctx, profile, state, asked.pending, given.Feasible[0])
	}
	return given, err
}

func reasonOf(status *fwk.Status) refusal {
	return refusal{Plugin: status.Plugin(), Reason: strings.Join(status.Reasons(), "; ")}
}

// defaultProfile builds the default profile, with these settings if there are any. Its informers read a client that
// knows only the objects of the snapshot.
func defaultProfile(ctx context.Context, asked *cluster, scored *settings) (framework.Framework, error) {
	config, err := configlatest.Default()
	if err != nil {
		return nil, err
	}
	if scored != nil {
		scored.apply(&config.Profiles[0])
	}
	client := fake.NewSimpleClientset(asked.objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := startTracker(ctx, client, factory)
	if err != nil {
		return nil, err
	}
	claimsRead := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	nodes := internalcache.NewSnapshot(asked.placed, asked.nodes)
	pods := internalcache.New(ctx, nil, enabled(features.GenericWorkload), enabled(features.CompositePodGroup))
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	addClasses(asked, manager)
	profile, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &config.Profiles[0],
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(manager),
		frameworkruntime.WithSnapshotSharedLister(nodes),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodGroupManager(pods),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	<-claimsRead.HasSyncedChecker().Done()
	<-slices.HasSyncedChecker().Done()
	return profile, nil
}

// addClasses makes the classes known by the names of extended resources, as the event handlers of kube-scheduler do.
func addClasses(asked *cluster, manager fwk.SharedDRAManager) {
	handler, ok := manager.DeviceClassResolver().(cache.ResourceEventHandler)
	for _, object := range asked.objects {
		if class, isClass := object.(*resourceapi.DeviceClass); ok && isClass {
			handler.OnAdd(class, true)
		}
	}
}

func startTracker(ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory) (*tracker.Tracker, error) {
	options := tracker.Options{
		EnableDeviceTaintRules:   enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: enabled(features.DRAConsumableCapacity),
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		KubeClient:               client,
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = factory.Resource().V1().DeviceTaintRules()
	}
	return tracker.StartTracker(ctx, options)
}

func enabled(feature featuregate.Feature) bool {
	return utilfeature.DefaultFeatureGate.Enabled(feature)
}
