/** Some of what a verb finds, and the place where the next page begins: none after the last. */
export interface Page<T, Place> {
  readonly items: readonly T[]
  readonly next: Place | undefined
}

/** All pages, each from the place where the one before ended. */
export async function* pagesOf<P extends Page<unknown, unknown>, Place>(
  first: NoInfer<Place>,
  read: (after: Place) => Promise<P & { readonly next: Place | undefined }>
): AsyncGenerator<P, void> {
  for (let after: Place | undefined = first; after !== undefined;) {
    const page: P & { readonly next: Place | undefined } = await read(after)
    yield page
    after = page.next
  }
}

/** A page of what is found in the order of cids. */
export function pageByCid<T extends { readonly cid: string }>(items: readonly T[]): Page<T, string> {
  return { items, next: items.at(-1)?.cid }
}
