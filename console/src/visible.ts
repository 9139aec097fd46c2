// Text from outside cannot pass for other text: invisible characters that change how it reads are shown as JSON escapes.

import { Fragment, options, type ComponentChildren, type VNode } from "preact";

// Control characters, except tab and the ends of lines, and characters that change the direction of text.
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
  const isValue = vnode.type === "option"; // its text may be its value
  if ((typeof vnode.type === "string" && !isValue) || vnode.type === Fragment) vnode.props.children = drawn(vnode.props.children);
  before?.(vnode);
};
