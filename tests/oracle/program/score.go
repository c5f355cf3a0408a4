package main

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// settings are arguments of Score plugins that differ from the default profile.
type settings struct {
	// HardPodAffinityWeight is that of InterPodAffinity.
	HardPodAffinityWeight *int32 `json:"hardPodAffinityWeight"`
	// Allocated is the scoring strategy of NodeResourcesFit: LeastAllocated or MostAllocated.
	Allocated config.ScoringStrategyType `json:"allocated"`
	// Strategy is the whole scoring strategy of NodeResourcesFit.
	Strategy *config.ScoringStrategy `json:"strategy"`
	// Balanced has the resources of NodeResourcesBalancedAllocation.
	Balanced []config.ResourceSpec `json:"balanced"`
}

// apply also leaves out the Score of VolumeBinding, which ends the process if a CSIStorageCapacity has a
// maximumVolumeSize and no capacity: it reads the capacity without a check.
func (s settings) apply(profile *config.KubeSchedulerProfile) {
	disabled := config.Plugin{Name: names.VolumeBinding}
	profile.Plugins.Score.Disabled = append(profile.Plugins.Score.Disabled, disabled)
	for _, each := range profile.PluginConfig {
		switch arguments := each.Args.(type) {
		case *config.InterPodAffinityArgs:
			if s.HardPodAffinityWeight != nil {
				arguments.HardPodAffinityWeight = *s.HardPodAffinityWeight
			}
		case *config.NodeResourcesFitArgs:
			if s.Allocated != "" {
				arguments.ScoringStrategy.Type = s.Allocated
			}
			if s.Strategy != nil {
				arguments.ScoringStrategy = s.Strategy
			}
		case *config.NodeResourcesBalancedAllocationArgs:
			if s.Balanced != nil {
				arguments.Resources = s.Balanced
			}
		}
	}
}

// score asks the Score plugins about the feasible nodes: by plugin and node, what they say before it is normalized
// and weighted. A plugin that has nothing to say about the pod is absent.
func score(ctx context.Context, profile framework.Framework, state fwk.CycleState, asked *cluster, feasible []fwk.NodeInfo) (map[string]map[string]int64, error) {
	found := map[string]map[string]int64{}
	if len(feasible) == 0 {
		return found, nil
	}
	if status := profile.RunPreScorePlugins(ctx, state, asked.pending, feasible); !status.IsSuccess() {
		return nil, status.AsError()
	}
	nodes, status := profile.RunScorePlugins(ctx, state, asked.pending, feasible)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	for _, node := range nodes {
		for _, each := range node.RawScores {
			if found[each.Name] == nil {
				found[each.Name] = map[string]int64{}
			}
			found[each.Name][node.Name] = each.Score
		}
	}
	return found, nil
}
