import type { Draw } from '../protocol/random-numbers.js'

/** One write to a vault. */
export interface VaultWrite {
  verb: 'add' | 'replaceAll' | 'replace' | 'removeAll' | 'remove'
  did: string
  key: string
  /** Of `replace` and `remove`: an index into `contents`. */
  place: number
  /** Of those that write: an index into `contents`. */
  content: number
}

/** What a vault should be: under each DID and key the contents, in the order in which they were written. */
export class Dictionary {
  readonly #keys = new Map<string, number[]>()

  apply({ verb, did, key, place, content }: VaultWrite): void {
    const found = this.find(did, key)
    const without = (...contents: number[]): number[] => found.filter((one) => !contents.includes(one))
    const next = {
      add: () => (found.includes(content) ? found : [...found, content]),
      replaceAll: () => [content],
      replace: () => [...without(place, content), content],
      removeAll: () => [],
      remove: () => without(place)
    }[verb]()
    this.#keys.set(`${did} ${key}`, next)
  }

  find(did: string, key: string): number[] {
    return this.#keys.get(`${did} ${key}`) ?? []
  }

  /** Every content that an entry has, once. */
  contents(): number[] {
    return [...new Set([...this.#keys.values()].flat())]
  }
}

/** A write by chance; adding is as likely as all removing. */
export function drawWrite(draw: Draw, dids: readonly string[], keys: readonly string[], contents: number): VaultWrite {
  const verbs = ['add', 'add', 'add', 'replaceAll', 'replace', 'replace', 'removeAll', 'remove', 'remove'] as const
  return {
    verb: verbs[draw(verbs.length)]!,
    did: dids[draw(dids.length)]!,
    key: keys[draw(keys.length)]!,
    place: draw(contents),
    content: draw(contents)
  }
}
