"""What our own shop sells: five departments of twelve kinds of things, as tables.

The attributes of a kind exclude each other in wording: none is part of another one, so that a product either says an
attribute or does not. The same holds for the values of an option.
"""

from __future__ import annotations

import dataclasses

Group = tuple[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of product.

    Attributes:
      department: of the catalogue.
      aisle: second level of the category path.
      noun: what it is, in the singular.
      materials: attributes of which a product has exactly one; it is said right before the noun.
      features: attributes of which a product has several.
      options: (name, values) that products of the kind can offer.
      prices: lowest and highest usual price, dollars.
    """

    department: str
    aisle: str
    noun: str
    materials: tuple[str, ...]
    features: tuple[str, ...]
    options: tuple[Group, ...]
    prices: tuple[int, int]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


DEPARTMENTS = {
    "fashion": "Clothing & Accessories",
    "beauty": "Beauty & Personal Care",
    "garden": "Home & Garden",
    "electronics": "Electronics & Gadgets",
    "grocery": "Grocery & Pantry",
}

BRANDS = _list(
    "Norvale, Tessiko, Brambury, Quillon, Ostrava Lane, Fennick, Marlowe & Pike, Zuvio, Kestrane, Halden Row, Lumiveo, "
    "Pernilla, Corvane, Juniper Yard, Arkwell, Solbrite, Wexmoor, Tavira, Ondine Works, Grenfold, Calypra, Dunmere, "
    "Velloso, Ibbotson, Rushmark, Elmhavn, Pondora, Stellwick, Yarrowby, Nimbrio"
)

USES = {
    "fashion": _list("travel, the office, weekends, cold evenings, the beach, long walks"),
    "beauty": _list("daily care, sensitive days, the evening, travel, a fresh start, holidays"),
    "garden": _list("the bedroom, the porch, small flats, the guest room, the study, family evenings"),
    "electronics": _list("the desk, the car, travel, students, the living room, remote work"),
    "grocery": _list("breakfast, lunch breaks, road trips, parties, cosy evenings, the pantry"),
}

_COLOURS = _list("black, white, navy blue, forest green, red, gray, beige, burgundy, teal, lavender, rust, yellow")
_TONES = _list("ivory, charcoal, sky blue, olive green, terracotta, blush, sand, indigo, gold, silver")
_CLOTHES = ("size", _list("x-small, small, medium, large, x-large, xx-large"))
_COLOUR = ("color", _COLOURS)
_TONE = ("color", _TONES)
_SCENT = ("scent", _list("coconut, citrus, lavender, eucalyptus, rosewater, sandalwood, honeydew, peppermint"))
_SHADE = ("shade", _list("coral, berry, nude, cinnamon, mauve, brick, cocoa, apricot"))
_FLAVOUR = ("flavor", _list("vanilla, sea salt, honey, cinnamon, ginger, blueberry, hazelnut, jalapeno, coconut"))
_BOTTLE = ("size", _list("2 ounce, 4 ounce, 8 ounce, 12 ounce, 16 ounce, 32 ounce"))
_PACK = ("size", _list("pack of 1, pack of 2, pack of 4, pack of 6, pack of 12, pack of 24"))
_CABLE = ("size", _list("3 feet, 6 feet, 10 feet, 15 feet, 25 feet"))
_SCREEN = ("size", _list("5 inch, 6 inch, 8 inch, 10 inch, 12 inch"))
_SPREAD = ("size", _list("twin, full, queen, king, california king"))
_AREA = ("size", _list("2 x 3 feet, 3 x 5 feet, 4 x 6 feet, 5 x 8 feet, 8 x 10 feet"))
_PATTERN = ("pattern", _list("striped, floral, checkered, plain, paisley, dotted"))
_CONNECTOR = ("connector", _list("usb-c, micro plug, lightning, barrel tip"))
_STYLE = ("style", _list("classic, sporty, travel edition, studio, junior"))

_CLOTH = _list("cotton, linen, merino wool, bamboo viscose, recycled polyester, modal")
_CLOTH_FEATURES = _list(
    "machine washable, quick drying, long sleeve, slim fit, moisture wicking, wrinkle resistant, hand sewn, "
    "sun blocking"
)
_OUTER_FEATURES = _list(
    "water resistant, fleece lined, wind blocking, machine washable, two way zip, packable, reflective, insulated"
)
_SKIN = _list("aloe vera, shea butter, oat milk, argan oil, rose hip, green clay")
_SKIN_FEATURES = _list(
    "cruelty free, paraben free, fragrance free, fast absorbing, dermatologist tested, vegan, long lasting, oil free"
)
_HAIR_FEATURES = _list(
    "sulfate free, color safe, cruelty free, anti frizz, volumizing, vegan, ph balanced, silicone free"
)
_WOOD = _list("solid oak, bamboo, walnut veneer, powder coated steel, rattan, acacia")
_FURNITURE_FEATURES = _list(
    "easy assembly, space saving, scratch resistant, stackable, weatherproof, foldaway, anti tip, height adjustable"
)
_TEXTILE = _list("cotton, linen, microfiber, velvet, chenille, hemp")
_TEXTILE_FEATURES = _list(
    "machine washable, fade resistant, hypoallergenic, pet friendly, non slip, double stitched, lint free, reversible"
)
_SHELL = _list("aluminum, silicone, tempered glass, carbon fiber, woven nylon, bioplastic")
_POWER_FEATURES = _list(
    "fast charging, tangle free, surge protected, plug and play, shock absorbing, gold plated, lifetime warranty, "
    "heat resistant"
)
_SOUND_FEATURES = _list(
    "noise cancelling, water resistant, hands free, fast charging, low latency, voice controlled, long range, foldaway"
)
_SNACK = _list("whole grain, almond, chickpea, oat, quinoa, sunflower seed")
_SNACK_FEATURES = _list(
    "gluten free, low sodium, non gmo, sugar free, high protein, individually wrapped, kosher, fair trade"
)
_DRINK = _list("single origin, decaffeinated, stone ground, small batch, cold brewed, loose leaf")

_TABLES: dict[
    str, tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], tuple[Group, ...], tuple[int, int]], ...]
] = {
    "fashion": (
        ("Tops", "t-shirt", _CLOTH, _CLOTH_FEATURES, (_CLOTHES, _COLOUR), (9, 30)),
        ("Tops", "blouse", _CLOTH, _CLOTH_FEATURES, (_CLOTHES, _COLOUR), (15, 45)),
        ("Tops", "polo shirt", _CLOTH, _CLOTH_FEATURES, (_CLOTHES, _COLOUR), (14, 40)),
        ("Knitwear", "cardigan", _CLOTH, _CLOTH_FEATURES, (_CLOTHES, _COLOUR), (22, 70)),
        ("Knitwear", "hoodie", _CLOTH, _CLOTH_FEATURES, (_CLOTHES, _COLOUR), (20, 60)),
        ("Outerwear", "rain jacket", _CLOTH, _OUTER_FEATURES, (_CLOTHES, _COLOUR), (30, 110)),
        ("Outerwear", "winter coat", _CLOTH, _OUTER_FEATURES, (_CLOTHES, _COLOUR), (45, 160)),
        ("Outerwear", "vest", _CLOTH, _OUTER_FEATURES, (_CLOTHES, _COLOUR), (18, 60)),
        ("Dresses", "summer dress", _CLOTH, _CLOTH_FEATURES, (_CLOTHES, _COLOUR, _PATTERN), (18, 65)),
        ("Sleepwear", "bathrobe", _CLOTH, _CLOTH_FEATURES, (_CLOTHES, _TONE), (20, 65)),
        ("Accessories", "tote bag", _CLOTH, _OUTER_FEATURES, (_COLOUR, _PATTERN), (10, 40)),
        ("Accessories", "scarf", _CLOTH, _OUTER_FEATURES, (_TONE, _PATTERN), (8, 35)),
    ),
    "beauty": (
        ("Hair", "shampoo", _SKIN, _HAIR_FEATURES, (_SCENT, _BOTTLE), (6, 25)),
        ("Hair", "conditioner", _SKIN, _HAIR_FEATURES, (_SCENT, _BOTTLE), (6, 25)),
        ("Hair", "hair mask", _SKIN, _HAIR_FEATURES, (_SCENT, _BOTTLE), (8, 30)),
        ("Hair", "beard balm", _SKIN, _HAIR_FEATURES, (_SCENT, _PACK), (8, 28)),
        ("Skin", "body lotion", _SKIN, _SKIN_FEATURES, (_SCENT, _BOTTLE), (6, 28)),
        ("Skin", "face cleanser", _SKIN, _SKIN_FEATURES, (_SCENT, _BOTTLE), (7, 30)),
        ("Skin", "night serum", _SKIN, _SKIN_FEATURES, (_SCENT, _PACK), (12, 55)),
        ("Skin", "hand salve", _SKIN, _SKIN_FEATURES, (_SCENT, _PACK), (5, 18)),
        ("Makeup", "lipstick", _SKIN, _SKIN_FEATURES, (_SHADE, _PACK), (6, 26)),
        ("Makeup", "blusher", _SKIN, _SKIN_FEATURES, (_SHADE, _PACK), (7, 28)),
        ("Makeup", "foundation", _SKIN, _SKIN_FEATURES, (_SHADE, _BOTTLE), (9, 38)),
        ("Bath", "bath soap", _SKIN, _SKIN_FEATURES, (_SCENT, _PACK), (4, 16)),
    ),
    "garden": (
        ("Bedding", "pillowcase", _TEXTILE, _TEXTILE_FEATURES, (_SPREAD, _TONE), (9, 35)),
        ("Bedding", "duvet cover", _TEXTILE, _TEXTILE_FEATURES, (_SPREAD, _TONE, _PATTERN), (25, 90)),
        ("Bedding", "throw blanket", _TEXTILE, _TEXTILE_FEATURES, (_SPREAD, _TONE), (15, 60)),
        ("Floors", "area rug", _TEXTILE, _TEXTILE_FEATURES, (_AREA, _TONE), (30, 180)),
        ("Floors", "door mat", _TEXTILE, _TEXTILE_FEATURES, (_TONE, _PATTERN), (10, 35)),
        ("Windows", "curtain", _TEXTILE, _TEXTILE_FEATURES, (_AREA, _TONE), (15, 70)),
        ("Seating", "bar stool", _WOOD, _FURNITURE_FEATURES, (_COLOUR, _PACK), (35, 140)),
        ("Seating", "garden bench", _WOOD, _FURNITURE_FEATURES, (_COLOUR, _STYLE), (60, 220)),
        ("Storage", "bookshelf", _WOOD, _FURNITURE_FEATURES, (_COLOUR, _STYLE), (40, 190)),
        ("Storage", "shoe rack", _WOOD, _FURNITURE_FEATURES, (_COLOUR, _STYLE), (20, 80)),
        ("Tables", "side table", _WOOD, _FURNITURE_FEATURES, (_COLOUR, _STYLE), (25, 110)),
        ("Plants", "planter", _WOOD, _FURNITURE_FEATURES, (_COLOUR, _PACK), (12, 60)),
    ),
    "electronics": (
        ("Power", "charging cable", _SHELL, _POWER_FEATURES, (_CABLE, _CONNECTOR, _COLOUR), (6, 25)),
        ("Power", "power bank", _SHELL, _POWER_FEATURES, (_CONNECTOR, _COLOUR), (18, 70)),
        ("Power", "wall charger", _SHELL, _POWER_FEATURES, (_CONNECTOR, _COLOUR), (10, 40)),
        ("Power", "extension cord", _SHELL, _POWER_FEATURES, (_CABLE, _COLOUR), (9, 35)),
        ("Cases", "phone case", _SHELL, _POWER_FEATURES, (_SCREEN, _COLOUR), (7, 30)),
        ("Cases", "tablet sleeve", _SHELL, _POWER_FEATURES, (_SCREEN, _COLOUR), (12, 45)),
        ("Cases", "screen protector", _SHELL, _POWER_FEATURES, (_SCREEN, _STYLE), (5, 20)),
        ("Audio", "bluetooth speaker", _SHELL, _SOUND_FEATURES, (_COLOUR, _STYLE), (20, 120)),
        ("Audio", "headset", _SHELL, _SOUND_FEATURES, (_COLOUR, _STYLE), (18, 110)),
        ("Audio", "microphone", _SHELL, _SOUND_FEATURES, (_COLOUR, _STYLE), (22, 130)),
        ("Wearables", "smart watch", _SHELL, _SOUND_FEATURES, (_COLOUR, _STYLE), (40, 220)),
        ("Wearables", "fitness tracker", _SHELL, _SOUND_FEATURES, (_COLOUR, _STYLE), (25, 120)),
    ),
    "grocery": (
        ("Snacks", "granola bar", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _PACK), (5, 22)),
        ("Snacks", "cracker", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _PACK), (4, 16)),
        ("Snacks", "trail mix", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _BOTTLE), (6, 24)),
        ("Snacks", "popcorn", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _PACK), (4, 18)),
        ("Baking", "pancake mix", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _BOTTLE), (5, 20)),
        ("Baking", "cookie", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _PACK), (5, 22)),
        ("Breakfast", "cereal", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _BOTTLE), (5, 19)),
        ("Breakfast", "nut spread", _SNACK, _SNACK_FEATURES, (_FLAVOUR, _BOTTLE), (6, 24)),
        ("Drinks", "coffee", _DRINK, _SNACK_FEATURES, (_FLAVOUR, _BOTTLE), (8, 32)),
        ("Drinks", "black tea", _DRINK, _SNACK_FEATURES, (_FLAVOUR, _PACK), (5, 24)),
        ("Drinks", "cocoa powder", _DRINK, _SNACK_FEATURES, (_FLAVOUR, _BOTTLE), (6, 22)),
        ("Drinks", "herbal infusion", _DRINK, _SNACK_FEATURES, (_FLAVOUR, _PACK), (5, 20)),
    ),
}

KINDS: tuple[Kind, ...] = tuple(Kind(department, *row) for department, rows in _TABLES.items() for row in rows)
