import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import { numbersFrom, type Draw } from '../../protocol/random-numbers.js'
import { ask } from '../servers/server-client.js'

const KEYS = ['a', 'b', 'c']
/** Number of different contents. It is small, so that one user may delete a content that another user still has. */
const CONTENTS = 60

/** Returns the text of a content. Some texts consist of many blocks. */
export function createText(content: number): string {
  return `content ${content} `.repeat(content % 20 === 0 ? 30_000 : 20)
}

const cids = Array.from({ length: CONTENTS }, (_, content) => cidOf(Buffer.from(createText(content))))

/** User of a vault, with the acknowledged state. */
export interface LoadUser {
  did: string
  accessToken: string
  model: Dictionary
  /** Write without an answer, which may or may not have been executed. */
  uncertain: VaultWrite | undefined
}

/** Load of users that write until it is stopped. */
export interface VaultLoad {
  /** Returns the number of acknowledged writes so far. */
  acknowledged(): number
  /** Answers that no user should get. */
  wrongAnswers: string[]
  /** Stops the load, and waits until the last request of every user is answered or has failed. */
  stop(): Promise<void>
}

let seed = 1

/** Puts a vault under load. A user whose connection breaks stops, and its last write remains uncertain. */
export function startVaultLoad(url: string, users: readonly LoadUser[]): VaultLoad {
  const wrongAnswers: string[] = []
  let acknowledged = 0
  let isStopping = false

  const writeUntilStopped = async (user: LoadUser): Promise<void> => {
    const draw = numbersFrom((seed += 7919))
    while (!isStopping) {
      const write = drawWrite(draw, [user.did], KEYS, CONTENTS)
      user.uncertain = write
      const answer = await send(url, user, write).catch(() => undefined)
      if (answer === undefined) return
      user.uncertain = undefined
      if (![200, 201].includes(answer.status)) wrongAnswers.push(`${write.verb}: ${answer.status} ${answer.text}`)
      else user.model.apply(write)
      acknowledged += 1
    }
  }
  const runningUsers = users.map(writeUntilStopped)
  return {
    wrongAnswers,
    acknowledged: () => acknowledged,
    stop: async () => {
      isStopping = true
      await Promise.all(runningUsers)
    }
  }
}

function send(url: string, { accessToken }: LoadUser, { verb, key, place, content }: VaultWrite) {
  const [method, path] = {
    add: ['POST', `/${key}`],
    replaceAll: ['PUT', `/${key}`],
    replace: ['PUT', `/${key}/${cids[place]!}`],
    removeAll: ['DELETE', `/${key}`],
    remove: ['DELETE', `/${key}/${cids[place]!}`]
  }[verb] as [string, string]
  const body = method === 'DELETE' ? {} : { body: JSON.stringify({ content: createText(content) }) }
  const headers = { Authorization: `DIDAuth ${accessToken}`, 'Content-Type': 'application/json' }
  return ask(url + path, { method, headers, ...body })
}

/** Returns acknowledged writes that are lost or incomplete. Settles uncertain ones in the model. */
export async function findVaultLosses(url: string, users: readonly LoadUser[]): Promise<string[]> {
  const losses: string[] = []
  await Promise.all(
    users.map(async (user) => {
      const contentsByKey = new Map<string, string>()
      for (const key of KEYS) contentsByKey.set(key, (await ask(`${url}/${user.did}/${key}`)).text)
      const readExpected = (key: string): string => JSON.stringify(user.model.find(user.did, key).map(createText))
      if (user.uncertain !== undefined && contentsByKey.get(user.uncertain.key) !== readExpected(user.uncertain.key)) {
        user.model.apply(user.uncertain)
      }
      user.uncertain = undefined
      for (const key of KEYS) {
        const text = contentsByKey.get(key) ?? ''
        if (text !== readExpected(key)) losses.push(`${text.slice(0, 80)} for ${readExpected(key).slice(0, 80)}`)
      }
    })
  )
  return losses
}

/** One write to a vault. */
export interface VaultWrite {
  verb: 'add' | 'replaceAll' | 'replace' | 'removeAll' | 'remove'
  did: string
  key: string
  /** Index into `contents` for `replace` and `remove`. */
  place: number
  /** Index into `contents` for verbs that write. */
  content: number
}

/** Expected state of a vault: under each DID and key the contents, in the order in which they were written. */
export class Dictionary {
  readonly #keys = new Map<string, number[]>()

  apply({ verb, did, key, place, content }: VaultWrite): void {
    const stored = this.find(did, key)
    const without = (...contents: number[]): number[] => stored.filter((number) => !contents.includes(number))
    const next = {
      add: () => (stored.includes(content) ? stored : [...stored, content]),
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

  /** Returns every stored content once. */
  contents(): number[] {
    return [...new Set([...this.#keys.values()].flat())]
  }
}

/** Draws a random write. Adding is as likely as both kinds of removal together. */
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
