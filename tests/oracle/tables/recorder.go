// Package recorder writes what plugins of kube-scheduler are asked, and what they answer, while their own tests run.
// It is compiled as a package of k8s.io/kubernetes, beside the plugins; recording.py puts it there.
package recorder

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

// Mark begins each line of stdout that is a call.
const Mark = "\x01call "

// call is one call of a plugin. State tells which calls belong together.
type call struct {
	Method string            `json:"method"`
	Plugin string            `json:"plugin"`
	State  string            `json:"state"`
	Pod    json.RawMessage   `json:"pod,omitempty"`
	Nodes  []node            `json:"nodes,omitempty"`
	Only   []string          `json:"only,omitempty"`
	IsOnly bool              `json:"isOnly,omitempty"`
	Code   string            `json:"code"`
	Why    []string          `json:"why,omitempty"`
	Score  int64             `json:"score,omitempty"`
	Others []json.RawMessage `json:"objects,omitempty"`
	// Settings has the flags of the plugin, Gates the feature gates that are not at their defaults.
	Settings map[string]json.RawMessage `json:"settings,omitempty"`
	Gates    map[string]bool            `json:"gates,omitempty"`
}

type node struct {
	Node json.RawMessage   `json:"node"`
	Pods []json.RawMessage `json:"pods"`
}

var writing sync.Mutex

// PreFilter writes a call with all that the plugin can see.
func PreFilter(plugin, state any, pod *v1.Pod, nodes []fwk.NodeInfo, result *fwk.PreFilterResult, status *fwk.Status) {
	made := begin("PreFilter", plugin, state, pod, status)
	made.see(plugin, nodes)
	if result != nil && !result.AllNodes() {
		made.IsOnly, made.Only = true, result.NodeNames.UnsortedList()
	}
	made.write()
}

// Filter writes a call for one node.
func Filter(plugin, state any, pod *v1.Pod, info fwk.NodeInfo, status *fwk.Status) {
	made := begin("Filter", plugin, state, pod, status)
	made.see(plugin, nil)
	made.add([]fwk.NodeInfo{info})
	made.write()
}

// Volumes writes what the volume binder finds for one node, as a Filter call of VolumeBinding.
func Volumes(binder any, pod *v1.Pod, on *v1.Node, reasons []string, err error) {
	var status *fwk.Status
	switch {
	case err != nil:
		status = fwk.AsStatus(err)
	case len(reasons) > 0:
		status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasons...)
	}
	made := begin("Filter", binder, nil, pod, status)
	made.Plugin = "VolumeBinding"
	made.see(binder, nil)
	if on != nil {
		made.Nodes = append(made.Nodes, node{Node: document(on)})
	}
	made.write()
}

// PreScore writes a call with the nodes that are scored.
func PreScore(plugin, state any, pod *v1.Pod, nodes []fwk.NodeInfo, status *fwk.Status) {
	made := begin("PreScore", plugin, state, pod, status)
	made.see(plugin, nodes)
	for _, each := range nodes {
		made.Only = append(made.Only, each.Node().Name)
	}
	made.write()
}

// Score writes what one node scores.
func Score(plugin, state any, pod *v1.Pod, info fwk.NodeInfo, score int64, status *fwk.Status) {
	made := begin("Score", plugin, state, pod, status)
	made.Score = score
	made.see(plugin, nil)
	made.add([]fwk.NodeInfo{info})
	made.write()
}

// Changed notes that the state is not that of the nodes any more, as in the search for victims.
func Changed(plugin, state any) {
	made := begin("Changed", plugin, state, nil, nil)
	made.write()
}

func begin(method string, plugin, state any, pod *v1.Pod, status *fwk.Status) *call {
	made := &call{Method: method, Plugin: name(plugin), State: fmt.Sprintf("%p", state), Code: status.Code().String()}
	if status != nil {
		made.Why = status.Reasons()
	}
	if pod != nil {
		made.Pod = document(pod)
	}
	return made
}

func name(plugin any) string {
	if named, ok := plugin.(fwk.Plugin); ok {
		return named.Name()
	}
	return fmt.Sprintf("%T", plugin)
}

// see adds what the plugin can see: the nodes of its lister, or these, and the objects that it can read.
func (c *call) see(plugin any, nodes []fwk.NodeInfo) {
	found := &walker{seen: map[string]bool{}}
	c.Settings = map[string]json.RawMessage{}
	found.settings = c.Settings
	found.walk(reflect.ValueOf(plugin), 0)
	if found.lister != nil {
		if listed, err := found.lister.NodeInfos().List(); err == nil && len(listed) > 0 {
			nodes = listed
		}
	}
	c.add(nodes)
	c.Others = found.objects
	c.Gates = changedGates()
}

func (c *call) add(nodes []fwk.NodeInfo) {
	for _, info := range nodes {
		if info == nil {
			continue
		}
		shown := info.Node()
		if shown == nil {
			shown = &v1.Node{}
		}
		made := node{Node: document(shown), Pods: []json.RawMessage{}}
		for _, pod := range info.GetPods() {
			made.Pods = append(made.Pods, document(pod.GetPod()))
		}
		c.Nodes = append(c.Nodes, made)
	}
}

func (c *call) write() {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	fmt.Fprintf(os.Stdout, "\n%s%s\n", Mark, text)
}

func changedGates() map[string]bool {
	found := map[string]bool{}
	for gate, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if is := utilfeature.DefaultFeatureGate.Enabled(gate); is != spec.Default {
			found[string(gate)] = is
		}
	}
	return found
}

// document is an object as JSON, with its kind.
func document(object runtime.Object) json.RawMessage {
	copied := object.DeepCopyObject()
	if kinds, _, err := scheme.Scheme.ObjectKinds(copied); err == nil {
		copied.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	text, err := json.Marshal(copied)
	if err != nil {
		panic(err)
	}
	return text
}

// walker finds objects of the API behind the fields of a plugin: in listers, caches and clients.
type walker struct {
	seen     map[string]bool
	objects  []json.RawMessage
	settings map[string]json.RawMessage
	lister   fwk.SharedLister
}

const deepest = 8

func (w *walker) walk(value reflect.Value, depth int) {
	if depth > deepest || !value.IsValid() {
		return
	}
	if !value.CanInterface() {
		if !value.CanAddr() {
			return
		}
		value = reflect.NewAt(value.Type(), unsafe.Pointer(value.UnsafeAddr())).Elem()
	}
	switch value.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
		if value.IsNil() {
			return
		}
	}
	if w.understands(value.Interface(), value) {
		return
	}
	w.into(value, depth)
}

func (w *walker) into(value reflect.Value, depth int) {
	switch value.Kind() {
	case reflect.Interface, reflect.Pointer:
		w.walk(value.Elem(), depth+1)
	case reflect.Slice:
		for index := range value.Len() {
			w.walk(value.Index(index), depth+1)
		}
	case reflect.Map:
		for each := value.MapRange(); each.Next(); {
			w.walk(each.Value(), depth+1)
		}
	case reflect.Struct:
		if value.CanAddr() {
			if object, ok := value.Addr().Interface().(runtime.Object); ok {
				w.add(object)
				return
			}
		}
		if strings.Contains(value.Type().PkgPath(), "pkg/scheduler/") {
			for index := range value.NumField() {
				w.setting(value.Type().Field(index).Name, value.Field(index), depth)
				w.walk(value.Field(index), depth+1)
			}
		}
	}
}

// setting notes what was configured: flags, arguments, default constraints.
func (w *walker) setting(name string, field reflect.Value, depth int) {
	isFlag := field.Kind() == reflect.Bool && depth <= 2
	isArgument := name == "args" || name == "defaultConstraints" || name == "ignoredResources" ||
		name == "ignoredResourceGroups" || name == "addedNodeSelector" || name == "addedPrefSchedTerms"
	if (!isFlag && !isArgument) || !field.CanAddr() {
		return
	}
	read := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
	if text, err := json.Marshal(read.Interface()); err == nil {
		w.settings[name] = text
	}
}

// understands reads what has objects of the API.
func (w *walker) understands(found any, value reflect.Value) bool {
	switch typed := found.(type) {
	case fwk.SharedLister:
		w.lister = typed
		return true
	case fwk.Handle:
		if lister := typed.SnapshotSharedLister(); lister != nil {
			w.lister = lister
		}
		w.track(typed.ClientSet())
		return true
	case interface {
		Tracker() clienttesting.ObjectTracker
	}:
		w.track(typed)
		return true
	case fwk.Parallelizer:
		return true
	case runtime.Object:
		w.add(typed)
		return true
	}
	return w.list(value)
}

// list calls a lister of one kind, if it is one.
func (w *walker) list(value reflect.Value) bool {
	method := value.MethodByName("List")
	if !method.IsValid() || method.Type().NumOut() != 2 {
		return false
	}
	given := []reflect.Value{}
	switch method.Type().NumIn() {
	case 0:
	case 1:
		everything := reflect.ValueOf(labels.Everything())
		if !everything.Type().AssignableTo(method.Type().In(0)) {
			return false
		}
		given = append(given, everything)
	default:
		return false
	}
	listed := method.Call(given)
	if !listed[1].IsNil() {
		return false
	}
	w.into(listed[0], 0)
	return true
}

var tracked = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"},
	{Version: "v1", Kind: "PersistentVolume"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ReplicationController"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "CSINode"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "CSIDriver"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "CSIStorageCapacity"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"},
}

// track reads the store of a fake client, which counts no request.
func (w *walker) track(client any) {
	fake, ok := client.(interface {
		Tracker() clienttesting.ObjectTracker
	})
	if !ok || fake.Tracker() == nil {
		return
	}
	for _, kind := range tracked {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		list, err := fake.Tracker().List(resource, kind, "")
		if err != nil {
			continue
		}
		objects, _ := meta.ExtractList(list)
		for _, each := range objects {
			w.add(each)
		}
	}
}

// add keeps an object once. Nodes and pods are those of the snapshot.
func (w *walker) add(object runtime.Object) {
	if reflect.ValueOf(object).IsNil() {
		return
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return
	}
	switch object.(type) {
	case *v1.Node, *v1.Pod:
		return
	}
	id := fmt.Sprintf("%T %s/%s", object, accessor.GetNamespace(), accessor.GetName())
	if !w.seen[id] {
		w.seen[id] = true
		w.objects = append(w.objects, document(object))
	}
}
