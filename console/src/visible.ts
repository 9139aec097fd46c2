// Text from outside is drawn as what it is: characters that cannot be seen but change what is are drawn as JSON writes them.

import { Fragment, options, type ComponentChildren, type VNode } from "preact";

// Control characters, but for tab and the ends of lines, and those that turn the direction of writing.
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

export function visible(text: string): string {
  return text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function drawn(children: ComponentChildren): ComponentChildren {
  if (typeof children === "string") return visible(children);
  return Array.isArray(children) ? children.map(drawn) : children;
}

const before = options.vnode;
options.vnode = (vnode: VNode) => {
  const isValue = vnode.type === "option"; // its text is what it stands for, too
  if ((typeof vnode.type === "string" && !isValue) || vnode.type === Fragment) vnode.props.children = drawn(vnode.props.children);
  before?.(vnode);
};
