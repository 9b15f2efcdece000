import { describe, expect, it } from '@jest/globals'
import { freezeDeep, readField, isObject } from '../../src/protocol/json.js'

describe('isObject', () => {
  it.each([[{}], [{ a: 1 }], [Object.create(null)]])('is true for %j', (value) => expect(isObject(value)).toBe(true))

  it.each([[null], [undefined], [[]], ['a'], [5], [true]])('is false for %j', (value) =>
    expect(isObject(value)).toBe(false)
  )
})

describe('fieldOf', () => {
  it('is the own field of an object', () => expect(readField({ did: 'a' }, 'did')).toBe('a'))

  it.each([
    ['a field of the prototype', {}, 'constructor'],
    ['a field inherited', Object.create({ did: 'a' }), 'did'],
    ['the length of an array', [1], 'length'],
    ['the length of a string', 'abc', 'length'],
    ['anything of null', null, 'did'],
    ['anything of undefined', undefined, 'did']
  ])('is undefined for %s', (_name, value, name) => expect(readField(value, name)).toBeUndefined())
})

describe('deepFreeze', () =>
  it('freezes objects and arrays all the way down and returns the same value', () => {
    const value = { a: { b: [{ c: 1 }] } }
    expect(freezeDeep(value)).toBe(value)
    expect([value, value.a, value.a.b, value.a.b[0]].every(Object.isFrozen)).toBe(true)
  }))
